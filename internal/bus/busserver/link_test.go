package busserver_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/busconn"
	"github.com/verge-edge/verge/internal/bus/busserver"
)

// changes records what OnLink or OnWorker tell.
type changes struct {
	mu   sync.Mutex
	seen []string
}

func (c *changes) add(name string, up bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if up {
		name = "+" + name
	} else {
		name = "-" + name
	}
	c.seen = append(c.seen, name)
}

func (c *changes) wait(t *testing.T, want ...string) {
	t.Helper()
	eventually(t, "told changes", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.seen) < len(want) {
			return false
		}
		for i, w := range want {
			if c.seen[i] != w {
				t.Fatalf("told %q, want %q", c.seen, want)
			}
		}
		return true
	})
}

func TestLinkCarriesBothWays(t *testing.T) {
	t.Parallel()
	a := newCA(t)
	r := startRoot(t, a, t.TempDir(), "127.0.0.1:0")
	var told changes
	r.OnLink(told.add)
	edge := startCluster(t, a, "edge", t.TempDir(), upstream(t, a, r, "edge"))
	fog := startCluster(t, a, "fog", t.TempDir(), nil)
	if up, _ := fog.UpConnected(); up {
		t.Fatal("a cluster without a root is connected")
	}
	waitUp(t, edge.Up(), true)
	if err := fog.SetUpstream(*upstream(t, a, r, "fog")); err != nil {
		t.Fatal(err)
	}
	waitUp(t, fog.Up(), true)
	told.wait(t, "+edge", "+fog")

	for _, c := range []struct {
		name string
		s    *busserver.ClusterServer
	}{{"edge", edge}, {"fog", fog}} {
		top, err := r.Cluster(c.name)
		if err != nil {
			t.Fatal(err)
		}
		waitUp(t, top, true)
		answer(t, top, "report", "root")
		answer(t, c.s.Up(), "down", c.name)
		var up, down string
		eventually(t, "interest over the link", func() bool {
			up, err = request(t, c.s.Up(), "report", c.name)
			return !errors.Is(err, bus.ErrNoResponder)
		})
		if err != nil || up != "root got "+c.name {
			t.Fatalf("request to the root: %q, %v", up, err)
		}
		eventually(t, "interest over the link", func() bool {
			down, err = request(t, top, "down", "x")
			return !errors.Is(err, bus.ErrNoResponder)
		})
		if err != nil || down != c.name+" got x" {
			t.Fatalf("request to %s: %q, %v", c.name, down, err)
		}
	}
	if got := r.Clusters(); len(got) != 2 || got[0] != "edge" || got[1] != "fog" {
		t.Fatalf("clusters: %q", got)
	}
	if _, err := r.Cluster("cloud"); !errors.Is(err, bus.ErrNotFound) {
		t.Fatalf("unknown cluster: %v", err)
	}
}

func TestLinkSurvivesRestartOfTheRoot(t *testing.T) {
	t.Parallel()
	a := newCA(t)
	dir := t.TempDir()
	r := startRoot(t, a, dir, "127.0.0.1:0")
	addr := r.Addr()
	edge := startCluster(t, a, "edge", t.TempDir(), upstream(t, a, r, "edge"))
	waitUp(t, edge.Up(), true)
	// A request under way ends at once, not with its time.
	top, err := r.Cluster("edge")
	if err != nil {
		t.Fatal(err)
	}
	entered := make(chan struct{})
	if _, err := top.Subscribe("never", func(context.Context, bus.Msg) { close(entered) }); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() {
		for {
			_, err := request(t, edge.Up(), "never", "")
			if !errors.Is(err, bus.ErrNoResponder) {
				failed <- err
				return
			}
		}
	}()
	<-entered
	r.Close()
	if err := <-failed; !errors.Is(err, bus.ErrDisconnected) {
		t.Fatalf("request to a root that went away: %v", err)
	}
	waitUp(t, edge.Up(), false)
	start := time.Now()
	r = startRoot(t, a, dir, addr)
	var told changes
	r.OnLink(told.add)
	waitUp(t, edge.Up(), true)
	if d := time.Since(start); d > 10*time.Second {
		t.Errorf("the link took %v to come back", d)
	}
	told.wait(t, "+edge")
	if got := r.Clusters(); len(got) != 1 || got[0] != "edge" {
		t.Fatalf("clusters after a restart: %q", got)
	}
}

func TestClusterWorksAloneAndAfterRestart(t *testing.T) {
	t.Parallel()
	a := newCA(t)
	dir := t.TempDir()
	edge := startCluster(t, a, "edge", dir, nil)
	key := newKey(t)
	token, err := edge.AddWorker("w1", key.Public())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := edge.Store().Put(t.Context(), "k", []byte("v")); err != nil {
		t.Fatal(err)
	}
	edge.Close()
	edge = startCluster(t, a, "edge", dir, nil)
	if e, err := edge.Store().Get(t.Context(), "k"); err != nil || string(e.Value) != "v" {
		t.Fatalf("after a restart: %q, %v", e.Value, err)
	}
	waitUp(t, dialWith(t, a, edge, "w1", token, key), true) // the token is still good
}

func TestWorkerPresence(t *testing.T) {
	t.Parallel()
	a := newCA(t)
	edge := startCluster(t, a, "edge", t.TempDir(), nil)
	var told, late changes
	edge.OnWorker(told.add)
	w1, key, token := joinWorker(t, a, edge, "w1")
	told.wait(t, "+w1")
	edge.OnWorker(late.add)
	late.wait(t, "+w1")
	// A second connection of the same worker, as after a change of its address:
	// the end of the first is not the end of the worker.
	second := dialWith(t, a, edge, "w1", token, key)
	waitUp(t, second, true)
	w1.Close()
	w2, _, _ := joinWorker(t, a, edge, "w2")
	told.wait(t, "+w1", "+w2")
	second.Close()
	told.wait(t, "+w1", "+w2", "-w1")
	answer(t, w2, "o.w2.ask", "w2")
	if got, err := request(t, edge.Local(), "o.w2.ask", "hello"); err != nil || got != "w2 got hello" {
		t.Fatalf("question to a worker: %q, %v", got, err)
	}
	if _, err := request(t, edge.Local(), "o.w1.ask", ""); !errors.Is(err, bus.ErrNoResponder) {
		t.Fatalf("question to a worker that is away: %v", err)
	}
}

func TestWorkerReconnects(t *testing.T) {
	t.Parallel()
	a := newCA(t)
	dir := t.TempDir()
	opts := busserver.ClusterOptions{Name: "edge", Dir: dir, Listen: "127.0.0.1:0", TLS: a.server("cluster.test"), Peer: commonName, Log: quiet(t)}
	edge, err := busserver.StartCluster(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	w, _, _ := joinWorker(t, a, edge, "w1")
	answer(t, w, "o.w1.ask", "w1")
	opts.Listen = edge.Addr()
	edge.Close()
	waitUp(t, w, false)
	if err := w.Publish("w.w1.x", nil); !errors.Is(err, bus.ErrDisconnected) {
		t.Fatalf("publish while away: %v", err)
	}
	if _, err := request(t, w, "w.w1.report", ""); !errors.Is(err, bus.ErrDisconnected) {
		t.Fatalf("request while away: %v", err)
	}
	if edge, err = busserver.StartCluster(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(edge.Close)
	waitUp(t, w, true)
	// The subscription came back by itself.
	eventually(t, "answer after a reconnect", func() bool {
		got, err := request(t, edge.Local(), "o.w1.ask", "again")
		return err == nil && got == "w1 got again"
	})
}

// A cluster that has moved is found at an address that the worker was told while it
// was running.
func TestWorkerFollowsToAnotherAddress(t *testing.T) {
	t.Parallel()
	a := newCA(t)
	opts := busserver.ClusterOptions{Name: "edge", Dir: t.TempDir(), Listen: "127.0.0.1:0", TLS: a.server("cluster.test"), Peer: commonName, Log: quiet(t)}
	edge, err := busserver.StartCluster(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	key := newKey(t)
	token, err := edge.AddWorker("w1", key.Public())
	if err != nil {
		t.Fatal(err)
	}
	var also atomic.Pointer[[]string]
	also.Store(&[]string{edge.Addr()}) // what it knows already is not tried twice
	w, err := busconn.Dial(t.Context(), busconn.DialOptions{
		Name: "w1", Addresses: []string{edge.Addr()}, Key: key, Log: quiet(t), JWT: func() string { return token },
		TLS:  func() (*tls.Config, error) { return a.client("w1", "cluster.test"), nil },
		Also: func() []string { return *also.Load() },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	waitUp(t, w, true)
	// Its old port is taken, by something that is not the cluster.
	old := edge.Addr()
	edge.Close()
	waitUp(t, w, false)
	taken, err := net.Listen("tcp", old)
	if err != nil {
		t.Fatal(err)
	}
	if edge, err = busserver.StartCluster(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	defer edge.Close()
	also.Store(&[]string{old, edge.Addr()})
	_ = taken.Close() // what has connected to it hangs no longer
	waitUp(t, w, true)
}

// Interest of workers must stay in the cluster: with it a root's cost would
// grow with workers.
func TestWorkerInterestStaysInTheCluster(t *testing.T) {
	t.Parallel()
	a := newCA(t)
	r := startRoot(t, a, t.TempDir(), "127.0.0.1:0")
	edge := startCluster(t, a, "edge", t.TempDir(), upstream(t, a, r, "edge"))
	waitUp(t, edge.Up(), true)
	answer(t, edge.Up(), "witness", "edge")
	top, err := r.Cluster("edge")
	if err != nil {
		t.Fatal(err)
	}
	asked := func() bool { _, err := request(t, top, "witness", ""); return err == nil }
	eventually(t, "link", asked)
	before := r.LeafSubscriptions(t)
	for _, name := range []string{"w1", "w2", "w3"} {
		w, _, _ := joinWorker(t, a, edge, name)
		answer(t, w, "o."+name+".>", name)
		answer(t, w, "o."+name+".ask", name)
	}
	answer(t, edge.Local(), "w.>", "edge")
	// What is subscribed upwards later has crossed: so has all before it.
	answer(t, edge.Up(), "witness2", "edge")
	eventually(t, "later interest", func() bool { _, err := request(t, top, "witness2", ""); return err == nil })
	after := r.LeafSubscriptions(t)
	if len(after) != len(before)+1 {
		t.Fatalf("subscriptions at the root went from %q to %q", before, after)
	}
	for _, s := range after {
		if s[0] == 'o' || s == "w.>" {
			t.Errorf("%s is known at the root", s)
		}
	}
	if err := edge.Local().Publish("witness3", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := request(t, edge.Local(), "report", ""); !errors.Is(err, bus.ErrNoResponder) {
		t.Fatalf("a request in LOCAL left the cluster: %v", err)
	}
}

func TestRemoveCluster(t *testing.T) {
	t.Parallel()
	a := newCA(t)
	dir := t.TempDir()
	r := startRoot(t, a, dir, "127.0.0.1:0")
	addr := r.Addr()
	up := upstream(t, a, r, "edge")
	edge := startCluster(t, a, "edge", t.TempDir(), up)
	fog := startCluster(t, a, "fog", t.TempDir(), upstream(t, a, r, "fog"))
	waitUp(t, edge.Up(), true)
	waitUp(t, fog.Up(), true)
	if err := r.RemoveCluster("edge"); err != nil {
		t.Fatal(err)
	}
	if err := r.RemoveCluster("edge"); err != nil {
		t.Fatalf("remove again: %v", err)
	}
	waitUp(t, edge.Up(), false)
	if got := r.Clusters(); len(got) != 1 || got[0] != "fog" {
		t.Fatalf("clusters: %q", got)
	}
	stays := func(r *busserver.RootServer) {
		t.Helper()
		// The link is tried every one to two seconds: see two refusals.
		before := r.Refusals(t)
		eventually(t, "refused attempts", func() bool { return r.Refusals(t) >= before+2 })
		if ok, _ := edge.UpConnected(); ok {
			t.Fatal("a removed cluster is connected")
		}
		if ok, _ := fog.UpConnected(); !ok {
			t.Fatal("another cluster is cut")
		}
	}
	stays(r)
	r.Close()
	r = startRoot(t, a, dir, addr)
	waitUp(t, fog.Up(), true)
	stays(r)
	// Joined again, with the same key, by a new token.
	token, err := r.AddCluster("edge", up.Key.Public())
	if err != nil {
		t.Fatal(err)
	}
	up.JWT = always(token)
	if err := edge.SetUpstream(*up); err != nil {
		t.Fatal(err)
	}
	waitUp(t, edge.Up(), true)
}

func TestNewKeyReplacesACluster(t *testing.T) {
	t.Parallel()
	a := newCA(t)
	r := startRoot(t, a, t.TempDir(), "127.0.0.1:0")
	first := upstream(t, a, r, "edge")
	edge := startCluster(t, a, "edge", t.TempDir(), first)
	waitUp(t, edge.Up(), true)
	// The same key again changes nothing.
	if _, err := r.AddCluster("edge", first.Key.Public()); err != nil {
		t.Fatal(err)
	}
	w, _, _ := joinWorker(t, a, edge, "w1")
	_, cut := w.Connected()
	second := upstream(t, a, r, "edge")
	waitUp(t, edge.Up(), false)
	if err := edge.SetUpstream(*second); err != nil {
		t.Fatal(err)
	}
	waitUp(t, edge.Up(), true)
	select {
	case <-cut:
		t.Fatal("a change of the link cut a worker")
	default:
	}
}

func TestRevokeWorker(t *testing.T) {
	t.Parallel()
	a := newCA(t)
	edge := startCluster(t, a, "edge", t.TempDir(), nil)
	w, key, token := joinWorker(t, a, edge, "w1")
	other, _, _ := joinWorker(t, a, edge, "w2")
	if err := edge.RevokeWorker("w1", key.Public()); err != nil {
		t.Fatal(err)
	}
	waitUp(t, w, false)
	if up, _ := other.Connected(); !up {
		t.Fatal("another worker was cut")
	}
	if _, err := rawClient(t, a, edge, token, key); err == nil {
		t.Fatal("a revoked token was accepted")
	}
	again, err := edge.AddWorker("w1", key.Public())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rawClient(t, a, edge, again, key); err != nil {
		t.Fatalf("a worker that joined again: %v", err)
	}
}

func TestDirectoryHasOneOwner(t *testing.T) {
	t.Parallel()
	a := newCA(t)
	dir := t.TempDir()
	r := startRoot(t, a, dir, "127.0.0.1:0")
	opts := busserver.RootOptions{Dir: dir, Listen: "127.0.0.1:0", TLS: a.server("x"), Peer: commonName, Log: quiet(t)}
	if _, err := busserver.StartRoot(t.Context(), opts); err == nil {
		t.Fatal("two servers on one directory")
	}
	opts.Dir, opts.Listen = t.TempDir(), r.Addr()
	if _, err := busserver.StartRoot(t.Context(), opts); err == nil {
		t.Fatal("two servers on one port")
	}
}
