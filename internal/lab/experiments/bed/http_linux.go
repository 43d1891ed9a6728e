package bed

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/lab"
	"github.com/verge-edge/verge/internal/lab/emul"
	"github.com/verge-edge/verge/internal/lab/experiment"
)

// HTTP by blocking sockets on threads with real-time priority. A client and a
// server on goroutines would add up to a millisecond of their own scheduling on a
// busy machine, which is as much as the nearest city is away.

// Responder answers requests at a host, one after the other: what it does takes
// some microseconds.
type Responder struct {
	fd     int
	closed atomic.Bool
	done   sync.WaitGroup
}

// Place calls f on a thread with some host's or instance's network.
type Place func(f func() error) error

// At a host.
func At(l *lab.Lab, host string) Place { return func(f func() error) error { return l.Do(host, f) } }

// Respond answers each request at a port of a place with what text returns.
func Respond(where Place, port int, text func() string) (*Responder, error) {
	r := &Responder{fd: -1}
	ready := make(chan error)
	r.done.Go(func() {
		err := where(func() (err error) {
			if r.fd, err = listen(port); err != nil {
				return err
			}
			close(ready)
			emul.Raise(emul.MeasuringPriority)
			for !r.closed.Load() {
				if c, _, err := unix.Accept4(r.fd, unix.SOCK_CLOEXEC); err == nil {
					serve(c, text)
				}
			}
			return nil
		})
		if err != nil {
			ready <- err
		}
	})
	return r, <-ready
}

func listen(port int) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrInet4{Port: port})
	}
	if err == nil {
		err = unix.Listen(fd, 1024)
	}
	return fd, err
}

func serve(c int, text func() string) {
	defer func() { _ = unix.Close(c) }() // the client has what it gets
	b := make([]byte, 0, 1024)
	for !bytes.Contains(b, []byte("\r\n\r\n")) {
		n, err := unix.Read(c, b[len(b):cap(b)])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			return
		}
		b = b[:len(b)+n]
	}
	body := text()
	// What is not written in whole the client notices.
	_, _ = unix.Write(c, fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(body), body))
}

// Close ends it; requests that were accepted are answered.
func (r *Responder) Close() {
	r.closed.Store(true)
	_ = unix.Shutdown(r.fd, unix.SHUT_RDWR) // accept returns
	r.done.Wait()
	_ = unix.Close(r.fd)
}

// RequestOnce sends a request on a connection of its own, from the network of this
// thread, and returns the time from its being written to its answer.
func RequestOnce(to netip.AddrPort) (time.Duration, error) {
	took, _, err := Ask(to)
	return took, err
}

// Ask is RequestOnce with what was answered.
func Ask(to netip.AddrPort) (took time.Duration, answer string, err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = unix.Close(fd) }() // all was read
	wait := unix.NsecToTimeval(int64(30 * time.Second))
	// Not for sending: a signal would then end the connect for good.
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait); err != nil {
		return 0, "", err
	}
	if err := unix.Connect(fd, &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())}); err != nil {
		return 0, "", fmt.Errorf("connect to %s: %w", to, err)
	}
	b := make([]byte, 4096)
	begin := time.Now()
	if _, err := unix.Write(fd, fmt.Appendf(nil, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", to)); err != nil {
		return 0, "", fmt.Errorf("send a request: %w", err)
	}
	n, err := unix.Read(fd, b)
	for errors.Is(err, unix.EINTR) {
		n, err = unix.Read(fd, b)
	}
	took = time.Since(begin)
	if err != nil {
		return 0, "", fmt.Errorf("read an answer: %w", err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(b[:n])), nil)
	if err != nil {
		return 0, "", fmt.Errorf("answer: %w", err)
	}
	body, err := io.ReadAll(resp.Body)
	if cerr := resp.Body.Close(); err == nil {
		err = cerr
	}
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("answer: %s", resp.Status)
	}
	return took, string(body), err
}

// Warm waits until all of some addresses answer, which first requests make paths to, and says
// which of these failed.
func Warm(ctx context.Context, e *experiment.Env, all ...netip.AddrPort) error {
	for _, to := range all {
		good := 0
		done, err := experiment.Poll(ctx, 20*time.Second, func() (bool, error) {
			if _, err := RequestOnce(to); err != nil {
				e.Say("%s: the first requests to %s: %v", e.Name, to, err)
				good = 0
				return false, nil
			}
			good++
			return good == 2, nil
		})
		if err == nil && !done {
			err = fmt.Errorf("%s does not answer", to)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
