package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	postEvery  = 5 // each fifth request signs the guestbook
	host       = "guestbook.localhost"
	impatience = 10 * time.Second // of a visitor
)

// request is one that a visitor made.
type request struct {
	start, end time.Time
	post       bool
	gateway    string
	instance   string // that answered
	worker     string
	failure    string // "" if it was answered as it should be
}

// load is a steady stream of visitors. They come at their times, whether the
// ones before were answered or not.
type load struct {
	client   *http.Client
	gateways []string

	mu   sync.Mutex
	done []request
}

func newLoad(gateways []string) *load {
	return &load{gateways: gateways, client: &http.Client{
		Timeout:       impatience,
		Transport:     &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// run sends rate requests a second until ctx is done, and waits for the answers.
func (l *load) run(ctx context.Context, rate int) {
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	var visitors sync.WaitGroup
	defer l.client.CloseIdleConnections()
	defer visitors.Wait()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			visitors.Go(func() {
				r := l.visit(n)
				l.mu.Lock()
				l.done = append(l.done, r)
				l.mu.Unlock()
			})
		}
	}
}

// visit makes the n-th request. It is not cut off with the load: what was begun
// is to be counted.
func (l *load) visit(n int) request {
	r := request{gateway: l.gateways[n%len(l.gateways)], post: n%postEvery == 0, start: time.Now()}
	method, body, want := http.MethodGet, io.Reader(nil), http.StatusOK
	if r.post {
		form := url.Values{"name": {"visitor"}, "text": {fmt.Sprintf("visit %d", n)}}
		method, body, want = http.MethodPost, strings.NewReader(form.Encode()), http.StatusSeeOther
	}
	req, err := http.NewRequest(method, "http://"+r.gateway+"/", body)
	if err != nil {
		r.end, r.failure = time.Now(), err.Error()
		return r
	}
	req.Host = host
	if r.post {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		// As from a browser: what may have been received is not sent again.
		req.GetBody = nil
	}
	resp, err := l.client.Do(req)
	if err != nil {
		r.end, r.failure = time.Now(), err.Error()
		return r
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	_ = resp.Body.Close() // only read
	r.end = time.Now()
	r.instance, r.worker = resp.Header.Get("X-Guestbook-Instance"), resp.Header.Get("X-Guestbook-Worker")
	switch {
	case err != nil:
		r.failure = "reading the answer: " + err.Error()
	case resp.StatusCode != want:
		r.failure = fmt.Sprintf("%s %s", resp.Status, strings.TrimSpace(string(text[:min(len(text), 300)])))
	}
	return r
}

// requests that ended so far, by the time of their start.
func (l *load) requests() []request {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := slices.Clone(l.done)
	slices.SortFunc(out, func(a, b request) int { return a.start.Compare(b.start) })
	return out
}

// tally of some requests.
type tally struct {
	sent, posts, posted int
	failed              []request
	median, p99, worst  time.Duration
}

// count tallies the requests that were made in [from, to).
func (l *load) count(from, to time.Time) tally {
	var t tally
	var took []time.Duration
	for _, r := range l.requests() {
		if r.start.Before(from) || !r.start.Before(to) {
			continue
		}
		t.sent++
		if r.post {
			t.posts++
		}
		if r.failure != "" {
			t.failed = append(t.failed, r)
			continue
		}
		if r.post {
			t.posted++
		}
		took = append(took, r.end.Sub(r.start))
	}
	if n := len(took); n > 0 {
		slices.Sort(took)
		t.median, t.p99, t.worst = took[n/2], took[n*99/100], took[n-1]
	}
	return t
}
