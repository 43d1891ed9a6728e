package hooks

import (
	"log/slog"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/seal"
	"github.com/verge-edge/verge/internal/wire"
)

// BenchmarkTell is what a notice costs the one who tells: with 64 hooks of which none
// wants it, and with one that does (its queue is full, so that the oldest go).
func BenchmarkTell(b *testing.B) {
	for name, on := range map[string]event.Kind{"unwanted": event.ClusterLost, "wanted": event.InstanceFailed} {
		b.Run(name, func(b *testing.B) {
			key, err := seal.Ensure(b.TempDir())
			if err != nil {
				b.Fatal(err)
			}
			k, err := Open(b.Context(),
				Options{Store: bustest.NewMemStore(), Key: key, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				b.Fatal(err)
			}
			defer k.Close()
			hooks := 1
			if name == "unwanted" {
				hooks = wire.MaxHooks
			}
			for i := range hooks {
				r := apiv1.HookRequest{HookSpec: wire.HookSpec{URL: "https://127.0.0.1:1/", On: []string{on.String()}},
					Secret: secretOf('a')}
				if _, err := k.Set(b.Context(), "", "h"+string(rune('a'+i%26))+string(rune('a'+i/26)), "",
					r); err != nil {
					b.Fatal(err)
				}
			}
			at := time.Now()
			for b.Loop() {
				at = at.Add(1)
				k.Tell(Notice{Kind: event.InstanceFailed, At: at, Position: at.String(), Fresh: true,
					Data: wire.HookData{Subject: "instance/a.b.0", Instance: "a.b.0", What: "exited with 1"}})
			}
		})
	}
}
