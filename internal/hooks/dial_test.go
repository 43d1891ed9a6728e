package hooks

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// The addresses of the machine are asked for at each connection: its interfaces, and what
// it advertises.
func TestHooksDoNotReachTheMachineItself(t *testing.T) {
	var mine []netip.Addr
	var failed error
	control := guard([]netip.Prefix{netip.MustParsePrefix("10.9.0.0/16")},
		func(context.Context) ([]netip.Addr, error) { return mine, failed })
	dial := func(address string) error { return control(t.Context(), "tcp", address, nil) }
	if err := dial("10.7.0.1:443"); err != nil {
		t.Errorf("another machine: %v", err)
	}
	mine = []netip.Addr{netip.MustParseAddr("10.7.0.1"), netip.MustParseAddr("10.9.0.1")} // it has got an address
	if err := dial("10.7.0.1:443"); err == nil || !strings.Contains(err.Error(),
		"10.7.0.1 is an address of the machine that sends it") ||
		!strings.Contains(err.Error(), "--hooks-allow 10.7.0.1/32") {
		t.Errorf("the machine itself: %v", err)
	}
	if err := dial("10.9.0.1:443"); err != nil {
		t.Errorf("the machine itself, as its operator allows: %v", err)
	}
	if failed = errors.New("no interfaces"); dial("10.7.0.2:443") == nil {
		t.Error("a hook goes anywhere while it is not known which addresses are the machine's")
	}

	got, err := own(t.Context(), []string{"203.0.113.7", "::ffff:203.0.113.8", "localhost"})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range []string{"127.0.0.1", "203.0.113.7", "203.0.113.8"} {
		if !slices.Contains(got, netip.MustParseAddr(a)) {
			t.Errorf("%s is not among the machine's addresses %v", a, got)
		}
	}
	// What it advertises is refused by a keeper.
	w := newWorld(t)
	w.k.Close()
	w.k, err = Open(t.Context(),
		Options{Store: w.store, Key: w.key, Now: time.Now, Advertised: []string{"203.0.113.7"},
			Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.k.Close)
	w.set("", "here", "https://203.0.113.7/x", wire.HookSpec{On: []string{"*"}})
	if v, err := w.k.Test(t.Context(), "", "here", ""); err != nil || v.OK ||
		!strings.Contains(v.What, "203.0.113.7 is an address of the machine that sends it") {
		t.Errorf("%+v, %v", v, err)
	}
}
