package certs

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

const folder = "certificates/authority/shop.example"

// cluster answers with err where that is set.
type cluster struct {
	mu     sync.Mutex
	err    error
	only   string // err is for this operation alone; "": for all
	values map[string][]byte
	asked  []rpc.ACMERequest
}

// ACME implements Above.
func (c *cluster) ACME(_ context.Context, q rpc.ACMERequest) (r rpc.ACMEReply, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, q)
	if c.err != nil && (c.only == "" || c.only == q.Op) {
		return r, c.err
	}
	switch q.Op {
	case rpc.ACMELoad:
		r.Value, r.Found = c.values[q.Key], c.values[q.Key] != nil
	case rpc.ACMEStore:
		maps.Copy(c.values, q.Values)
	case rpc.ACMEList:
		for _, k := range slices.Sorted(maps.Keys(c.values)) {
			if k == q.Key || strings.HasPrefix(k, q.Key+"/") {
				r.Entries = append(r.Entries, rpc.ACMEEntry{Key: k, Size: len(c.values[k])})
			}
		}
	case rpc.ACMELock:
		r.Held, r.Lease = true, 30*time.Second
	}
	return r, nil
}

func (c *cluster) fails(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

// count of questions with an operation.
func (c *cluster) count(op string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range c.asked {
		if q.Op == op {
			n++
		}
	}
	return n
}

func newTestShared(t *testing.T) (*shared, *cluster) {
	t.Helper()
	c := &cluster{values: map[string][]byte{}}
	s := newShared(c, &certmagic.FileStorage{Path: t.TempDir()}, slog.New(slog.DiscardHandler))
	t.Cleanup(s.close)
	return s, c
}

// store stores a certificate as certmagic does.
func store(t *testing.T, s *shared, text string) error {
	t.Helper()
	for _, end := range []string{".key", ".crt", ".json"} {
		if err := s.Store(t.Context(), folder+"/shop.example"+end, []byte(text+end)); err != nil {
			return err
		}
	}
	return nil
}

func load(t *testing.T, s *shared, end string) string {
	t.Helper()
	v, err := s.Load(t.Context(), folder+"/shop.example"+end)
	if err != nil {
		return err.Error()
	}
	return string(v)
}

// A certificate reaches the cluster as a whole, and what was got while the cluster is
// away is not lost: it is used, and shared later.
func TestSharedWhileTheClusterIsAway(t *testing.T) {
	s, c := newTestShared(t)
	if err := store(t, s, "first"); err != nil {
		t.Fatal(err)
	}
	if n := c.count(rpc.ACMEStore); n != 1 || len(c.values) != 3 {
		t.Errorf("%d questions for %d values", n, len(c.values))
	}
	c.fails(errors.New("nobody answers"))
	if err := store(t, s, "second"); err != nil {
		t.Fatal(err)
	}
	if got := load(t, s, ".key"); got != "second.key" {
		t.Errorf("while the cluster is away: %s", got)
	}
	if s.catchUp(t.Context()) || string(c.values[folder+"/shop.example.key"]) != "first.key" {
		t.Error("it was shared with nobody")
	}
	before := len(c.asked)
	if load(t, s, ".key"); len(c.asked) != before {
		t.Error("a cluster that has just not answered is asked again")
	}
	c.fails(nil)
	s.since = s.since.Add(-awayFor)
	if got := load(t, s, ".crt"); got != "second.crt" {
		t.Errorf("what the cluster has is older, and is used: %s", got)
	}
	if !s.catchUp(t.Context()) || string(c.values[folder+"/shop.example.key"]) != "second.key" {
		t.Errorf("it was not shared: %s", c.values)
	}
	keys, err := s.List(t.Context(), "certificates/authority", false)
	if err != nil || len(keys) != 1 || keys[0] != folder {
		t.Errorf("%v, %v", keys, err)
	}
	if info, err := s.Stat(t.Context(), folder+"/shop.example.crt"); err != nil || !info.IsTerminal ||
		info.Size != int64(len("second.crt")) {
		t.Errorf("%+v, %v", info, err)
	}
}

// What could not be shared since the cluster went away in the middle of that is shared later,
// and until then what is here counts, not what the cluster has.
func TestSharedWhenTheClusterGoesAway(t *testing.T) {
	s, c := newTestShared(t)
	if err := store(t, s, "first"); err != nil {
		t.Fatal(err)
	}
	c.fails(errors.New("nobody answers"))
	if err := store(t, s, "second"); err != nil {
		t.Fatal(err)
	}
	c.only = rpc.ACMEStore
	s.silent = nil
	if s.catchUp(t.Context()) {
		t.Error("it was shared with nobody")
	}
	s.silent = nil
	if got := load(t, s, ".key"); got != "second.key" {
		t.Errorf("what the cluster has is older, and is used: %s", got)
	}
	c.fails(nil)
	s.silent = nil
	if !s.catchUp(t.Context()) || string(c.values[folder+"/shop.example.key"]) != "second.key" {
		t.Errorf("it was not shared: %s", c.values)
	}
}

// What the cluster refuses is not kept here either, what it does not know of is kept
// here alone, and only its answer says that there is none.
func TestSharedWhenTheClusterRefuses(t *testing.T) {
	s, c := newTestShared(t)
	c.fails(wire.Problemf(403, "not-a-gateway", "allow it", "it is not allowed", "w1"))
	if err := store(t, s, "first"); err == nil || !strings.Contains(err.Error(), "not allowed") {
		t.Errorf("%v", err)
	}
	if err := s.Lock(t.Context(), "issue_cert_shop.example"); err == nil {
		t.Error("a lock was given to who may be no gateway")
	}
	for _, err := range []error{wire.Problemf(403, "not-a-gateway", "", "it is not allowed", "w1"),
		wire.Problemf(503, "busy", "", "busy", "busy"), errors.New("nobody")} {
		c.fails(err)
		s.silent = nil
		if _, got := s.Load(t.Context(), folder+"/shop.example.crt"); got == nil || errors.Is(got, fs.ErrNotExist) {
			t.Errorf("%v: %v, which has it asked for again", err, got)
		}
	}
	c.fails(nil)
	s.silent = nil
	if _, err := s.Load(t.Context(), folder+"/shop.example.crt"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	c.fails(wire.Problemf(404, "not-found", "", "no such path", "of an older cluster"))
	if err := store(t, s, "own"); err != nil || load(t, s, ".key") != "own.key" {
		t.Errorf("beside an older cluster: %v, %s", err, load(t, s, ".key"))
	}
	if err := errors.Join(s.Lock(t.Context(), "x"), s.Unlock(t.Context(), "x")); err != nil {
		t.Errorf("a lock on disk: %v", err)
	}
}

// A lock is said again while it is held, and no more afterwards.
func TestSharedLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newTestShared(t)
		if err := s.Lock(t.Context(), "issue_cert_shop.example"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute + time.Second)
		if n := c.count(rpc.ACMELock); n != 7 {
			t.Errorf("asked %d times in a minute for a lease of 30 s", n)
		}
		if err := s.Unlock(t.Context(), "issue_cert_shop.example"); err != nil || c.count(rpc.ACMEUnlock) != 1 {
			t.Errorf("%v", err)
		}
		before := c.count(rpc.ACMELock)
		time.Sleep(time.Minute)
		if n := c.count(rpc.ACMELock); n != before {
			t.Errorf("it is renewed after its end")
		}
	})
}
