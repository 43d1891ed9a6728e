package orders_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/orders"
	"github.com/verge-edge/verge/internal/wire"
)

func rev(n uint64) wire.Rev { return wire.Rev{Inc: "era", N: n} }

func route(service string, endpoints int) wire.Route {
	r := wire.Route{V: wire.Version, App: "shop", Service: service}
	for i := range endpoints {
		r.Endpoints = append(r.Endpoints, wire.Endpoint{Instance: fmt.Sprintf("shop.%s.%d", service, i), Cluster: "edge", Worker: "w1", Address: "192.0.2.1:8474"})
	}
	return r
}

// desk is a store with what was acknowledged of it.
type desk struct {
	t   *testing.T
	dir string
	s   *orders.Store
	has engineapi.EngineOrders
}

func newDesk(t *testing.T) *desk {
	d := &desk{t: t, dir: t.TempDir()}
	d.s = orders.At(d.dir)
	if _, err := d.s.Load(); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("nothing was stored: %v", err)
	}
	d.write(engineapi.EngineOrders{V: wire.Version, Have: rev(1), Routes: []wire.Route{route("a", 2), route("b", 3), route("c", 1)}})
	return d
}

func (d *desk) write(o engineapi.EngineOrders) {
	d.t.Helper()
	if err := d.s.Write(&o); err != nil {
		d.t.Fatal(err)
	}
	d.has = o
}

func (d *desk) change(routes []wire.Route, gone ...string) {
	d.t.Helper()
	c := engineapi.EngineChanges{V: wire.Version, From: d.has.Have, To: rev(d.has.Have.N + 1), Routes: routes, Gone: gone}
	next := d.has.With(&c)
	if err := d.s.Change(&c, &next); err != nil {
		d.t.Fatal(err)
	}
	d.has = next
}

// again is what another process finds.
func (d *desk) again() engineapi.EngineOrders {
	d.t.Helper()
	d.s = orders.At(d.dir)
	o, err := d.s.Load()
	if err != nil {
		d.t.Fatal(err)
	}
	return o
}

func (d *desk) same() {
	d.t.Helper()
	if got := d.again(); !reflect.DeepEqual(got, d.has) {
		d.t.Fatalf("stored is %+v, want %+v", got, d.has)
	}
}

func (d *desk) bytes(name string) []byte {
	d.t.Helper()
	b, err := os.ReadFile(filepath.Join(d.dir, name))
	if err != nil {
		d.t.Fatal(err)
	}
	return b
}

func TestChangesAreThereAfterAPowerCut(t *testing.T) {
	d := newDesk(t)
	base := string(d.bytes(engineapi.EngineOrdersFile))
	d.change([]wire.Route{route("b", 2)})
	d.same()
	d.change([]wire.Route{route("d", 1), route("a", 0)}, "shop.c", "shop.never")
	d.change(nil)
	d.same()
	d.change([]wire.Route{route("c", 4)})
	if now := string(d.bytes(engineapi.EngineOrdersFile)); now != base {
		t.Error("a change of a route wrote the file anew")
	}
	d.same()
	if len(d.has.Routes) != 4 || d.has.Have.N != 5 {
		t.Errorf("it has %+v", d.has)
	}
	// All orders end the log, also an old one that is there all the same.
	log := d.bytes(engineapi.EngineChangesFile)
	d.write(d.has)
	if err := os.WriteFile(filepath.Join(d.dir, engineapi.EngineChangesFile), log, 0o600); err != nil {
		t.Fatal(err)
	}
	d.same()
	d.change([]wire.Route{route("b", 1)})
	d.same()
}

// Whatever of the log a power cut leaves, what is read is a state that was there, and
// it can be continued.
func TestALogThatEndsAnywhere(t *testing.T) {
	d := newDesk(t)
	states := []engineapi.EngineOrders{d.has}
	for n := range 3 {
		d.change([]wire.Route{route("b", n)})
		states = append(states, d.has)
	}
	log := d.bytes(engineapi.EngineChangesFile)
	base := d.bytes(engineapi.EngineOrdersFile)
	for cut := range len(log) {
		for _, flip := range []bool{false, true} {
			b := append([]byte(nil), log[:cut]...)
			if flip {
				b = append([]byte(nil), log...)
				b[cut] ^= 4
			}
			for name, content := range map[string][]byte{engineapi.EngineOrdersFile: base, engineapi.EngineChangesFile: b} {
				if err := os.WriteFile(filepath.Join(d.dir, name), content, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got := d.again()
			if n := got.Have.N - 1; n > 3 || !reflect.DeepEqual(got, states[n]) {
				t.Fatalf("cut at %d (flipped: %v): %+v", cut, flip, got)
			}
			if cut%16 != 0 {
				continue
			}
			d.has = got
			d.change([]wire.Route{route("z", 1)})
			d.same()
		}
	}
}

// The log does not grow without bound.
func TestALongLogIsFoldedIn(t *testing.T) {
	d := newDesk(t)
	written := 0
	for n := range 120 {
		before := d.has.Have
		d.change([]wire.Route{route("b", 90+n%8)})
		b, err := os.ReadFile(filepath.Join(d.dir, engineapi.EngineChangesFile))
		if errors.Is(err, os.ErrNotExist) {
			written++
			continue
		}
		if err != nil || len(b) > 300<<10 {
			t.Fatalf("%v: a log of %d bytes, %v", before, len(b), err)
		}
	}
	d.same()
	if written == 0 || written > 10 {
		t.Errorf("the file was written %d times", written)
	}
}

// What a version without logs wrote is read, and what it reads is a state that was
// there.
func TestVersionsWithoutLogs(t *testing.T) {
	d := newDesk(t)
	first := d.has
	d.change([]wire.Route{route("b", 7)})
	log := d.bytes(engineapi.EngineChangesFile)
	text := `{"v":1,"have":{"i":"era","n":9},"routes":[{"v":1,"app":"shop","service":"b","policy":"","ports":null}]}`
	if err := os.WriteFile(filepath.Join(d.dir, engineapi.EngineOrdersFile), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(d.dir, engineapi.EngineChangesFile), log, 0o600); err != nil {
		t.Fatal(err)
	}
	if d.has = d.again(); len(d.has.Routes) != 1 || len(d.has.Routes[0].Endpoints) != 0 {
		t.Fatalf("%+v", d.has)
	}
	d.change([]wire.Route{route("b", 5)})
	d.same()
	if first.Have.N != 1 {
		t.Errorf("%+v", first)
	}
	if err := os.WriteFile(filepath.Join(d.dir, engineapi.EngineOrdersFile), []byte(`{"v":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := orders.At(d.dir).Load(); !errors.Is(err, orders.ErrDamaged) {
		t.Errorf("damaged: %v", err)
	}
}

// An engine that is older than its agent names no part that it has no room for.
func TestPartsOfANewerAgent(t *testing.T) {
	s := orders.At(t.TempDir())
	o := engineapi.EngineOrders{V: wire.Version, Have: rev(1), Parts: append(engineapi.OrderParts(), "later.")}
	if err := s.Write(&o); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Load(); err != nil || !reflect.DeepEqual(got.Parts, engineapi.OrderParts()) {
		t.Errorf("it names %v, %v", got.Parts, err)
	}
}
