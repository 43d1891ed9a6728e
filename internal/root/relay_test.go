package root

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/netlease"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// The root's relay is what clusters are told of, under a key that stays.
func TestRootRunsARelay(t *testing.T) {
	dir := t.TempDir()
	start := func() *Root {
		t.Helper()
		r, err := Start(t.Context(), Options{
			Dir: dir, APIAddr: "127.0.0.1:0", LinkAddr: "127.0.0.1:0", Relay: wire.RelayConfig{Listen: "127.0.0.1:0"},
			Advertise: []string{"root.example.org"}, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	said := func(r *Root) string {
		return core.View(r.Core, func(m *state.Model) string {
			re := netlease.Memory(m).Relay
			if re == nil || re.Name != RelayName || len(re.Addresses) != 1 ||
				!strings.HasPrefix(re.Addresses[0], "root.example.org:") {
				t.Fatalf("the relay is %+v", re)
			}
			return re.Key
		})
	}
	r := start()
	key := said(r)
	r.Close()
	r = start()
	defer r.Close()
	if said(r) != key {
		t.Error("the relay's key is another one after a restart")
	}
}
