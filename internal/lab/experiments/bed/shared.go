package bed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"
)

// Variables of an instance that works with processors which are not the machine's: how many, and how
// long one of them needs for a request of mean work.
const (
	sharedProcessors = "LAB_POD_PROCESSORS"
	sharedService    = "LAB_POD_SERVICE"
)

// shared is an instance whose requests share processors.
type shared struct {
	name    string
	service time.Duration

	mu    sync.Mutex // guards below
	has   processors
	timer *time.Timer // for the next task that ends
}

// newShared makes one. The caller closes it when no request is there.
func newShared(name string, service time.Duration, count float64) *shared {
	s := &shared{name: name, service: service, has: processors{count: count, at: time.Now()}}
	s.timer = time.AfterFunc(time.Hour, s.look)
	return s
}

func (s *shared) close() { s.timer.Stop() }

// look ends the tasks that are done, and sees to it that it is called when the next one is.
func (s *shared) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.has.advance(time.Now())
	s.plan()
}

// plan sets the timer; mu is held.
func (s *shared) plan() {
	if in, some := s.has.next(); some {
		s.timer.Reset(time.Until(s.has.at.Add(in)))
	}
}

// do works on so many seconds of one processor; false if ctx ended before.
func (s *shared) do(ctx context.Context, seconds float64) bool {
	s.mu.Lock()
	t := s.has.begin(time.Now(), seconds)
	s.plan()
	s.mu.Unlock()
	select {
	case <-t.done:
		return true
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		s.has.drop(time.Now(), t)
		s.plan()
		return false
	}
}

// ServeHTTP implements http.Handler.
func (s *shared) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	work, err := strconv.ParseFloat(r.Header.Get(workHeader), 64)
	if err != nil || !(work >= 0) {
		http.Error(w, fmt.Sprintf("%s: it is no number from 0 on", workHeader), http.StatusBadRequest)
		return
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return // the client has left
	}
	if s.do(r.Context(), work*s.service.Seconds()) {
		w.Header().Set(podHeader, s.name)
		w.WriteHeader(http.StatusOK)
	}
}

// ServeShared is an instance whose requests share processors, by its environment, until ctx ends.
func ServeShared(ctx context.Context) error {
	service, err := time.ParseDuration(os.Getenv(sharedService))
	if err != nil {
		return fmt.Errorf("%s: %w: an experiment starts this program", sharedService, err)
	}
	count, err := strconv.ParseFloat(os.Getenv(sharedProcessors), 64)
	if err != nil || !(count > 0) {
		return fmt.Errorf("%s is %q, and is to be a number above 0: an experiment starts this program", sharedProcessors, os.Getenv(sharedProcessors))
	}
	ln, err := net.Listen("tcp", net.JoinHostPort(os.Getenv("VERGE_LISTEN"), os.Getenv("PORT")))
	if err != nil {
		return err
	}
	pod := newShared(os.Getenv("VERGE_INSTANCE"), service, count)
	defer pod.close()
	s := &http.Server{Handler: pod, ReadHeaderTimeout: time.Minute}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })() // requests end with it
	if err := s.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
