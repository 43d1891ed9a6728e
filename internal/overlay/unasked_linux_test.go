package overlay

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"

	"github.com/verge-edge/verge/internal/overlay/overlaytest"
	"github.com/verge-edge/verge/internal/wire"
)

// A service of another application whose endpoints are not here has its name and its
// address; the first packet, and the name of an instance, wait until the endpoints are
// told. What has connections open counts as used, and what is not told any more is asked
// for again.
func TestTheFirstUseIsAskedFor(t *testing.T) {
	var mu sync.Mutex
	used, awaited := map[string]int{}, 0
	told := func() error { return errors.New("the cluster is away") }
	w := newWorldWith(t, func(o *Options) {
		o.Use = func(service string) { mu.Lock(); used[service]++; mu.Unlock() }
		o.Await = func(_ context.Context, service string) error {
			mu.Lock()
			f := told
			awaited++
			mu.Unlock()
			if service != "shop.db" {
				t.Errorf("asked for %s", service)
			}
			return f()
		}
	})
	r := routeTo("shop", 1, "db", "shop.db.0", "shop.db.1")
	r.Export = true
	away := r
	away.Endpoints, away.Unasked = nil, true
	spy := routeTo("other", 2, "spy", "other.spy.0")
	w.set(away, spy)
	for _, id := range []string{"shop.db.0", "shop.db.1"} {
		w.attach(id, 1)
		w.serve(id, 80)
	}
	w.attach("other.spy.0", 2)

	ask := func(name string, kind uint16) *dns.Msg {
		t.Helper()
		q := new(dns.Msg)
		q.SetQuestion(name+".default.verge.internal.", kind)
		return w.exchange("other.spy.0", q)
	}
	m := ask("db.default.shop", dns.TypeAAAA)
	if len(m.Answer) != 1 {
		t.Fatalf("its name: %v", m)
	}
	a, _ := netip.AddrFromSlice(m.Answer[0].(*dns.AAAA).AAAA)
	at := netip.AddrPortFrom(a, 80)
	mu.Lock()
	if used["shop.db"] == 0 || awaited != 0 {
		t.Errorf("used %v, waited %d times", used, awaited)
	}
	mu.Unlock()
	if !overlaytest.Refused(t, w.at["other.spy.0"].NetNS, "tcp", at) {
		t.Error("a service is reached of which nobody knows where it is")
	}
	if m := ask("0.instance.db.default.shop", dns.TypeAAAA); m.Rcode != dns.RcodeServerFailure {
		t.Errorf("the name of an instance that cannot be known: %v", m)
	}
	mu.Lock()
	told = func() error { return w.n.Set(w.net, []wire.Route{r, spy}) }
	mu.Unlock()
	if m := ask("0.instance.db.default.shop", dns.TypeAAAA); len(m.Answer) != 1 {
		t.Errorf("the name of an instance: %v", m)
	}
	for range 2 {
		if said, err := w.ask("other.spy.0", at.String()); !strings.HasPrefix(said, "shop.db") {
			t.Fatalf("the first use: %q, %v", said, err)
		}
		if use := w.n.InUse([]string{"shop.db", "other.spy"}); !use["shop.db"] || use["other.spy"] {
			t.Errorf("in use: %v", use)
		}
		// Nobody uses it any more, and then somebody does.
		w.set(away, spy)
		w.n.mu.Lock()
		if n := len(w.n.interest); n != 0 {
			t.Errorf("%d of interest", n)
		}
		if !slices.Contains([]int{0, 1}, len(w.n.served)) {
			t.Errorf("rules for %v", w.n.served)
		}
		w.n.mu.Unlock()
	}
}
