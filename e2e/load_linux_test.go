package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A load sends requests at a steady pace, each without waiting for those before
// it, as many users do. What one that hangs costs is then one request.
type load struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
	client *http.Client

	mu   sync.Mutex
	sent []sent
}

// sent is a request that has ended.
type sent struct {
	gateway, key string
	at           time.Time
	took         time.Duration
	err          error // nil: it was answered with 200
}

// silent says that nobody answered: neither an error nor a reset.
func (s sent) silent() bool {
	var timeout net.Error
	return errors.As(s.err, &timeout) && timeout.Timeout()
}

const (
	loadEvery = 80 * time.Millisecond // per gateway
	// loadPatience of a user is long: the machine may be busy with other tests.
	loadPatience = 10 * time.Second
)

// startLoad sends requests to gateways; make makes the n-th of a gateway and may
// name it.
func startLoad(t *testing.T, gateways []string, build func(gateway string, n int) (r *http.Request, key string, err error)) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{cancel: cancel, client: &http.Client{Timeout: loadPatience, Transport: &http.Transport{MaxIdleConnsPerHost: 100}}}
	t.Cleanup(func() { l.stop() })
	for _, g := range gateways {
		l.wg.Go(func() {
			ticker := time.NewTicker(loadEvery)
			defer ticker.Stop()
			for n := 0; ; n++ {
				r, key, err := build(g, n)
				l.wg.Go(func() { l.send(g, key, r, err) })
				select {
				case <-ctx.Done():
					return
				case <-ticker.C:
				}
			}
		})
	}
	return l
}

func (l *load) send(gateway, key string, r *http.Request, err error) {
	s := sent{gateway: gateway, key: key, at: time.Now(), err: err}
	if err == nil {
		var resp *http.Response
		if resp, s.err = l.client.Do(r); s.err == nil {
			var body []byte
			body, s.err = io.ReadAll(resp.Body)
			_ = resp.Body.Close() // read to its end
			if s.err == nil && resp.StatusCode != http.StatusOK {
				s.err = fmt.Errorf("%s: %.200s", resp.Status, strings.TrimSpace(string(body)))
			}
		}
	}
	s.took = time.Since(s.at)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent = append(l.sent, s)
}

// stop ends the load when what is under way has ended, and returns all in the
// order of their beginning.
func (l *load) stop() []sent {
	l.cancel()
	l.wg.Wait()
	l.client.CloseIdleConnections()
	slices.SortFunc(l.sent, func(a, b sent) int { return a.at.Compare(b.at) })
	return l.sent
}

// answered counts the good ones so far.
func (l *load) answered() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.sent {
		if s.err == nil {
			n++
		}
	}
	return n
}

// reads asks the front who it is.
func reads(gateway string, _ int) (*http.Request, string, error) {
	r, err := http.NewRequest(http.MethodGet, "http://"+gateway+"/whoami", nil)
	if err == nil {
		r.Host = frontHost
	}
	return r, "", err
}

// writes puts keys into the store that begin with prefix.
func writes(prefix string) func(gateway string, n int) (*http.Request, string, error) {
	return func(gateway string, n int) (*http.Request, string, error) {
		key := fmt.Sprintf("%s-%s-%d", prefix, gateway, n)
		r, err := http.NewRequest(http.MethodPost, "http://"+gateway+"/put?key="+url.QueryEscape(key), nil)
		if err == nil {
			r.Host = storeHost
		}
		return r, key, err
	}
}

// acknowledged checks that every write that was acknowledged is in the store.
func acknowledged(t *testing.T, gateway, prefix string, list []sent) (n int) {
	t.Helper()
	text, err := fetch(gateway, storeHost, "/keys?prefix="+url.QueryEscape(prefix))
	if err != nil {
		t.Fatalf("reading the store: %v", err)
	}
	have := map[string]bool{}
	for line := range strings.Lines(text) {
		have[strings.TrimSpace(line)] = true
	}
	for _, s := range list {
		if s.err != nil {
			continue
		}
		n++
		if !have[s.key] {
			t.Errorf("the write of %s was acknowledged and is not there", s.key)
		}
	}
	return n
}
