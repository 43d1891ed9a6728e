package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/verge-edge/verge/tools/bench"
)

// workload is what clients send, and how.
type workload struct {
	protocol protocol
	request  []byte // over HTTP/1.1
	conns    int
	// rate is how many requests begin in a second; 0: the next one when the last one
	// was answered.
	rate int
}

func get(path string) []byte {
	return []byte("GET " + path + " HTTP/1.1\r\nHost: " + benchHost +
		"\r\nUser-Agent: bench/1\r\nAccept: */*\r\nAccept-Encoding: gzip\r\n\r\n")
}

func post(path string, size int) []byte {
	return append([]byte("POST "+path+" HTTP/1.1\r\nHost: "+benchHost+
		"\r\nUser-Agent: bench/1\r\nContent-Type: application/octet-stream\r\nContent-Length: "+
		strconv.Itoa(size)+"\r\n\r\n"), bytes.Repeat([]byte{'x'}, size)...)
}

// clients are open connections to a proxy.
type clients struct {
	send []func() error // a request, and its answer; each is for one goroutine
	done []func()
}

func connect(addr string, w workload) (*clients, error) {
	if w.protocol != http1Plain && w.protocol != http1TLS {
		return connectH2(addr, w)
	}
	c := &clients{}
	for range w.conns {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			c.close()
			return nil, fmt.Errorf("connect: %w", err)
		}
		c.done = append(c.done, func() { _ = conn.Close() })
		if w.protocol == http1TLS {
			conn = tls.Client(conn, &tls.Config{ServerName: benchHost,
				InsecureSkipVerify: true}) //nolint:gosec // nothing secret is sent
		}
		buf := make([]byte, 4<<10)
		c.send = append(c.send, func() error { return once(conn, w.request, buf) })
	}
	return c, nil
}

func (c *clients) close() {
	for _, done := range c.done {
		done()
	}
}

// run sends for a time. took has how long each of the requests took where there is a
// rate.
func (c *clients) run(ctx context.Context, w workload, span time.Duration) (n int, took []time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, span)
	defer cancel()
	var wg sync.WaitGroup
	var count atomic.Int64
	times := make([][]time.Duration, len(c.send))
	errs := make([]error, len(c.send))
	begin := time.Now()
	for i, send := range c.send {
		wg.Go(func() {
			for k := 0; ctx.Err() == nil; k++ {
				if w.rate > 0 {
					at := begin.Add(time.Duration(k*len(c.send)+i) * time.Second / time.Duration(w.rate))
					_ = bench.Pause(ctx, time.Until(at))
					if ctx.Err() != nil {
						return
					}
				}
				sent := time.Now()
				if errs[i] = send(); errs[i] != nil {
					return
				}
				if w.rate > 0 {
					times[i] = append(times[i], time.Since(sent))
				}
				count.Add(1)
			}
		})
	}
	wg.Wait()
	return int(count.Load()), slices.Concat(times...), errors.Join(errs...)
}

// once sends a request and reads its answer.
func once(c net.Conn, request, buf []byte) error {
	if _, err := c.Write(request); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	have := 0
	for {
		n, err := c.Read(buf[have:])
		if err != nil {
			return fmt.Errorf("receive: %w: %q", err, buf[:have])
		}
		have += n
		end := bytes.Index(buf[:have], []byte("\r\n\r\n"))
		if end < 0 {
			continue
		}
		head := bytes.ToLower(buf[:end+2])
		if !bytes.HasPrefix(head, []byte("http/1.1 200 ")) {
			return fmt.Errorf("answered with %q", head)
		}
		_, after, ok := bytes.Cut(head, []byte("content-length: "))
		if !ok {
			return fmt.Errorf("no length in %q", head)
		}
		length, err := strconv.Atoi(string(after[:bytes.IndexByte(after, '\r')]))
		if err != nil {
			return fmt.Errorf("length: %w", err)
		}
		left := length - (have - end - 4)
		for left > 0 {
			n, err := c.Read(buf[:min(left, len(buf))])
			if err != nil {
				return fmt.Errorf("receive: %w", err)
			}
			left -= n
		}
		if left < 0 {
			return errors.New("more came than was announced")
		}
		return nil
	}
}

// serveUpstream answers requests: 1 KB for each.
func serveUpstream(ln net.Listener) {
	answer := []byte("HTTP/1.1 200 OK\r\nServer: bench\r\nContent-Type: text/plain\r\nContent-Length: 1024\r\n\r\n" +
		string(bytes.Repeat([]byte{'y'}, 1024)))
	small := []byte("HTTP/1.1 200 OK\r\nServer: bench\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok")
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = c.Close() }()
			buf := make([]byte, 64<<10)
			have := 0
			for {
				end := bytes.Index(buf[:have], []byte("\r\n\r\n"))
				if end < 0 {
					n, err := c.Read(buf[have:])
					if err != nil {
						return
					}
					have += n
					continue
				}
				length := 0
				if k := bytes.Index(bytes.ToLower(buf[:end+2]), []byte("content-length: ")); k >= 0 {
					digits := buf[k+len("content-length: ") : end+2]
					length, _ = strconv.Atoi(string(digits[:bytes.IndexByte(digits, '\r')]))
				}
				say := answer
				if length > 0 {
					say = small
				}
				left := length - (have - end - 4)
				if left < 0 {
					have = copy(buf, buf[end+4+length:have])
				} else {
					have = 0
				}
				for left > 0 {
					n, err := c.Read(buf[:min(left, len(buf))])
					if err != nil {
						return
					}
					left -= n
				}
				if _, err := io.Writer(c).Write(say); err != nil {
					return
				}
			}
		}()
	}
}
