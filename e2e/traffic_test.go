package e2e

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// traffic asks gateways for a host again and again.
type traffic struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu     sync.Mutex
	good   int
	failed []failure
}

type failure struct {
	begun, ended time.Time
	err          error
}

// sendTraffic begins; each address is asked every 20 ms over kept connections.
func sendTraffic(t *testing.T, host string, addrs ...string) *traffic {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	f := &traffic{cancel: cancel}
	for _, addr := range addrs {
		f.wg.Go(func() { f.send(ctx, addr, host) })
	}
	t.Cleanup(func() { f.stop() })
	return f
}

func (f *traffic) send(ctx context.Context, addr, host string) {
	client := &http.Client{Timeout: requestTimeout, Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		begun := time.Now()
		_, err := fetchBy(client, addr, host, "/whoami")
		f.mu.Lock()
		if err == nil {
			f.good++
		} else {
			f.failed = append(f.failed, failure{begun, time.Now(), err})
		}
		f.mu.Unlock()
	}
}

// count of good and failed requests so far.
func (f *traffic) count() (good, failed int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.good, len(f.failed)
}

// stop ends it and returns what failed.
func (f *traffic) stop() (good int, failed []failure) {
	f.cancel()
	f.wg.Wait()
	return f.good, f.failed
}

// noneFailed ends the traffic, when there was some, and fails the test if a request
// failed.
func (f *traffic) noneFailed(t *testing.T) {
	t.Helper()
	eventually(t, 20*time.Second, "enough requests are answered to say something", func() error {
		if good, _ := f.count(); good < 20 {
			return fmt.Errorf("%d were", good)
		}
		return nil
	})
	good, failed := f.stop()
	for i, e := range failed {
		if i < 5 {
			t.Errorf("request failed after %s: %v", e.ended.Sub(e.begun).Round(time.Millisecond), e.err)
		}
	}
	if len(failed) > 0 {
		t.Errorf("%d of %d requests failed", len(failed), good+len(failed))
	}
}

// stream is one long answer that must not break.
type stream struct {
	cancel   context.CancelFunc
	done     chan struct{}
	instance string // that answers

	mu   sync.Mutex
	last int
	err  error // of a gap, or the end before stop
}

// openStream begins to read /stream and waits for its first line.
func openStream(t *testing.T, addr, host string) *stream {
	t.Helper()
	s := beginStream(t, addr, host)
	eventually(t, 5*time.Second, "the stream begins", func() error { return s.beyond(0) })
	return s
}

// beginStream begins to read /stream, until owner ends.
func beginStream(owner *testing.T, addr, host string) *stream {
	return beginStreamBy(owner, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, addr, host)
}

// beginStreamBy is beginStream by a client.
func beginStreamBy(owner *testing.T, client *http.Client, addr, host string) *stream {
	ctx, cancel := context.WithCancel(context.Background())
	s := &stream{cancel: cancel, done: make(chan struct{}), last: -1}
	owner.Cleanup(s.close)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/stream", nil)
	if err != nil {
		s.err = err
		close(s.done)
		return s
	}
	req.Host = host
	go func() {
		defer close(s.done)
		err := s.read(client, req)
		s.mu.Lock()
		defer s.mu.Unlock()
		if ctx.Err() == nil && s.err == nil {
			s.err = fmt.Errorf("it ended after line %d: %w", s.last, err)
		}
	}()
	return s
}

func (s *stream) close() { s.cancel(); <-s.done }

func (s *stream) read(client *http.Client, req *http.Request) error {
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // read only
	s.mu.Lock()
	s.instance = resp.Header.Get("Instance")
	s.mu.Unlock()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		n, err := strconv.Atoi(strings.TrimSpace(lines.Text()))
		if err != nil {
			return err
		}
		s.mu.Lock()
		if n != s.last+1 && s.err == nil {
			s.err = fmt.Errorf("line %d came after line %d", n, s.last)
		}
		s.last = n
		s.mu.Unlock()
	}
	return lines.Err()
}

// beyond is nil when line n has come.
func (s *stream) beyond(n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	if s.last < n {
		return fmt.Errorf("line %d is the last", s.last)
	}
	return nil
}

// unbroken checks that all lines came and that more do.
func (s *stream) unbroken(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	n := s.last
	s.mu.Unlock()
	eventually(t, 5*time.Second, "the stream goes on", func() error { return s.beyond(n + 5) })
}
