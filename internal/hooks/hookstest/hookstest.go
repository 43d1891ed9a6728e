// Package hookstest is the server at the other end of hooks in tests.
package hookstest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/hooks"
	"github.com/verge-edge/verge/internal/wire"
)

// Secret is a secret that hooks may have.
const Secret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz" //nolint:gosec // it protects nothing

// Receiver is a server on this machine that hooks tell and ask. It agrees until Answer says
// otherwise.
type Receiver struct {
	News    chan apiv1.HookMessage // what has come, in order
	Cluster string                 // what Want wants to be told of; "" is anything

	t      testing.TB
	url    string
	mu     sync.Mutex // guards below
	says   string     // to questions
	status int
}

// NewReceiver serves until the test ends.
func NewReceiver(t testing.TB) *Receiver {
	t.Helper()
	r := &Receiver{t: t, News: make(chan apiv1.HookMessage, 100), says: `{"allow": true}`, status: http.StatusOK}
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	r.url = s.URL
	return r
}

// ServeHTTP takes one message.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	var m apiv1.HookMessage
	if err := json.NewDecoder(q.Body).Decode(&m); err != nil {
		m.Type = err.Error()
	}
	r.mu.Lock()
	says, status := r.says, r.status
	r.mu.Unlock()
	w.WriteHeader(status)
	if strings.HasPrefix(m.Type, "before.") {
		_, _ = io.WriteString(w, says)
	}
	r.News <- m
}

// Answer is what it says from now on: a status to everything, and a text to questions.
func (r *Receiver) Answer(status int, says string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status, r.says = status, says
}

// Request is what makes a hook that calls the receiver.
func (r *Receiver) Request(spec wire.HookSpec) apiv1.HookRequest {
	spec.URL, spec.Plain = r.url, true
	return apiv1.HookRequest{HookSpec: spec, Secret: Secret}
}

// Options let hooks call the receiver.
func Options(now func() time.Time) hooks.Options {
	return hooks.Options{Now: now,
		Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}}
}

// Want compares the next messages with the beginnings of their texts, such as
// "cluster.lost cluster/edge away".
func (r *Receiver) Want(texts ...string) {
	r.t.Helper()
	for _, want := range texts {
		select {
		case m := <-r.News:
			if got := fmt.Sprintf("%s %s %s", m.Type, m.Data.Subject, m.Data.What); !strings.HasPrefix(got, want) ||
				r.Cluster != "" && m.Data.Cluster != r.Cluster {
				r.t.Errorf("came %q of %+v, want %q", got, m.Data, want)
			}
		case <-time.After(time.Minute):
			r.t.Fatalf("%q has not come", want)
		}
	}
}

// Settle waits until each hook of k, which has one at least, has delivered everything.
func Settle(t testing.TB, k *hooks.Keeper) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); ; <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("something still waits")
		}
		list, waiting := k.Hooks("", true), 0
		if len(list) == 0 {
			t.Fatal("there is no hook")
		}
		for _, v := range list {
			waiting += v.Waiting
		}
		if waiting == 0 {
			return
		}
	}
}
