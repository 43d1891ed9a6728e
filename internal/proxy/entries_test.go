package proxy

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/proxy/entries"
	"github.com/verge-edge/verge/internal/wire"
)

func reserveAll(t testing.TB, r *Router, services ...string) map[string]string {
	t.Helper()
	got := map[string]string{}
	for _, s := range services {
		addrs, err := r.Reserve("app", s, []api.Port{{Name: "http"}, {Protocol: "tcp"}})
		must(t, err)
		if len(addrs) != 2 || addrs["http"] == "" || addrs["tcp"] == "" || addrs["http"] == addrs["tcp"] {
			t.Fatalf("Reserve: %v", addrs)
		}
		for p, a := range addrs {
			got[s+"/"+p] = a
		}
	}
	return got
}

func TestAddressesOutliveTheRouter(t *testing.T) {
	t.Parallel()
	opts := Options{
		Worker: "a", Local: &fakeEngine{}, EntryHost: entryHost(t),
		StateFile: filepath.Join(t.TempDir(), "ports.json"),
	}
	r, err := New(opts)
	must(t, err)
	// The order in which services are first seen decides their numbers where two
	// hash alike; another order after a restart must not.
	before := reserveAll(t, r, "web", "db", "cache") // before Start, as after a power cut
	must(t, r.Start(t.Context()))
	r.SetRoutes([]wire.Route{webRoute()})
	r.Close()

	r, err = New(opts)
	must(t, err)
	defer r.Close()
	must(t, r.Start(t.Context()))
	if n := len(r.Entries()); n != 6 {
		t.Fatalf("%d entries are known after a restart, want 6", n)
	}
	for _, e := range r.Entries() {
		if _, _, err := greetFrom(e.Addr); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s without a route: %v, want a reset", e.Addr, err)
		}
	}
	after := reserveAll(t, r, "cache", "web", "db")
	r.Close()

	r, err = New(opts)
	must(t, err)
	defer r.Close()
	r.SetRoutes([]wire.Route{webRoute()}) // before Start: says what is wanted
	must(t, r.Start(t.Context()))
	if e := r.Entries(); len(e) != 1 || e[0].Addr != before["web/tcp"] {
		t.Errorf("entries %v, want only %s", e, before["web/tcp"])
	}
	if _, _, err := greetFrom(before["web/tcp"]); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%v, want a reset", err)
	}
	for k, a := range before {
		if after[k] != a {
			t.Errorf("%s moved from %s to %s", k, a, after[k])
		}
	}
}

func TestEntriesFollowRoutes(t *testing.T) {
	t.Parallel()
	a := newWorker(t, newAuthority(t), "a", nil)
	reserveAll(t, a.Router, "db")
	a.SetRoutes([]wire.Route{webRoute()})
	addr := a.addr(t, "tcp")
	names := func() []string {
		var out []string
		for _, e := range a.Entries() {
			out = append(out, e.Service+"/"+e.Port)
		}
		return out
	}
	if got := names(); !slices.Equal(got, []string{"db/http", "db/tcp", "web/tcp"}) {
		t.Fatalf("entries %v", got)
	}
	a.SetRoutes(nil)
	if got := names(); !slices.Equal(got, []string{"db/http", "db/tcp"}) {
		t.Fatalf("entries %v: a reserved one must stay, a withdrawn one must not", got)
	}
	if _, _, err := greetFrom(addr); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("the withdrawn address: %v", err)
	}
	a.SetRoutes([]wire.Route{webRoute()})
	if got := a.addr(t, "tcp"); got != addr {
		t.Fatalf("moved from %s to %s", addr, got)
	}
}

func TestTakenAddressIsReportedAndTakenBack(t *testing.T) {
	t.Parallel()
	opts := Options{
		Worker: "a", Cluster: "edge", Local: &fakeEngine{}, EntryHost: entryHost(t),
		StateFile: filepath.Join(t.TempDir(), "ports.json"),
	}
	r, err := New(opts)
	must(t, err)
	addr := reserveAll(t, r, "web")["web/http"]
	r.Close()
	stranger, err := net.Listen("tcp", addr)
	must(t, err)

	r, err = New(opts)
	must(t, err)
	defer r.Close()
	must(t, r.Start(t.Context()))
	problem := func() string {
		for _, e := range r.Entries() {
			if e.Addr == addr {
				return e.Problem
			}
		}
		return "no such entry"
	}
	if p := problem(); !strings.Contains(p, "in use") {
		t.Fatalf("problem %q", p)
	}
	if got := reserveAll(t, r, "web")["web/http"]; got != addr {
		t.Fatalf("the promised address moved to %s", got)
	}
	must(t, stranger.Close())
	eventually(t, "the address is taken back", func() bool { return problem() == "" })
	if _, _, err := greetFrom(addr); !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("%v, want a reset by the router", err)
	}
}

func TestDamagedStateFileIsSetAside(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"rubbish":   "\x00\x01",
		"version":   `{"v":0,"ports":[]}`,
		"duplicate": `{"v":1,"ports":[{"app":"a","service":"b","port":"c","number":7},{"app":"a","service":"b","port":"d","number":7}]}`,
		"range":     `{"v":1,"ports":[{"app":"a","service":"b","port":"c","number":70000}]}`,
	} {
		path := filepath.Join(t.TempDir(), "ports.json")
		must(t, os.WriteFile(path, []byte(content), 0o600))
		b, err := entries.LoadPorts(path)
		if err == nil || !strings.Contains(err.Error(), path) || len(b.Records()) != 0 {
			t.Errorf("%s: %v, %v", name, b.Records(), err)
		}
		if kept, err := os.ReadFile(path + ".damaged"); err != nil || string(kept) != content {
			t.Errorf("%s: set aside %q, %v", name, kept, err)
		}
	}
}

// A router that does not know which addresses were given does not give any.
func TestNewerStateFileIsRefused(t *testing.T) {
	t.Parallel()
	path, content := filepath.Join(t.TempDir(), "ports.json"), `{"v":9,"ports":[]}`
	must(t, os.WriteFile(path, []byte(content), 0o600))
	if _, err := New(Options{Worker: "w1", Cluster: "edge", Local: &fakeEngine{}, StateFile: path}); err == nil ||
		!strings.Contains(err.Error(), path+" is of form 9") {
		t.Error(err)
	}
	if now, err := os.ReadFile(path); err != nil || string(now) != content {
		t.Errorf("it is %q, %v", now, err)
	}
}

// Budget: a service costs a worker one listener and one goroutine, 16 KiB.
func TestMemoryOfThousandEntries(t *testing.T) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur < 3000 {
		t.Skipf("needs 3,000 open files, limit is %d (%v)", limit.Cur, err)
	}
	r, err := New(Options{Worker: "a", Local: &fakeEngine{}, EntryHost: entryHost(t)})
	must(t, err)
	defer r.Close()
	must(t, r.Start(t.Context()))
	used := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	before := used()
	routes := make([]wire.Route, 1000)
	for i := range routes {
		routes[i] = wire.Route{App: "app", Service: fmt.Sprintf("s%d", i), Ports: tcpPort}
	}
	r.SetRoutes(routes)
	if n := len(r.Entries()); n != 1000 {
		t.Fatalf("%d entries", n)
	}
	each := (int64(used()) - int64(before)) / 1000
	t.Logf("%d bytes per entry", each)
	if each > 16<<10 {
		t.Errorf("%d bytes per entry, budget 16384", each)
	}
	runtime.KeepAlive(routes)
}
