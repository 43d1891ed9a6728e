package backend_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// The largest application that there may be is stored, delegated, scaled and ended
// like any other, in parts that each fit where they go.
func TestAThousandServices(t *testing.T) {
	store := bustest.NewMemStore()
	b := roottest.NewBackend(t, store)
	now := time.Now()
	cl := state.NewCluster(state.ClusterRecord{V: wire.Version, Name: "edge"}, now)
	much := wire.Spread{Sum: 1 << 50, Mean: 1 << 50, Max: 1 << 50}
	cl.Aggregate = &wire.Aggregate{V: wire.Version, Workers: 1, Runtimes: []string{"process"},
		FreeCapacity: wire.FreeCapacity{CPU: much, Memory: much, Disk: much}}
	cl.Heard, cl.EverHeard, cl.Connected, cl.Current = now, true, true, true
	b.M.Clusters["edge"] = cl
	var source strings.Builder
	source.WriteString("application: big\nservices:\n")
	for i := range api.MaxServices {
		fmt.Fprintf(&source, "  s%d: {command: [x, \"${VERGE_S%d_ADDR}\"], ports: [{}]}\n", i, (i+1)%api.MaxServices)
	}
	roottest.MustApply(t, b, []byte(source.String()))
	settle := func() {
		t.Helper()
		for range 3 {
			cl.Current = true // as it reports
			roottest.Pass(t, b.Core)
		}
	}
	settle()
	shares := 0
	for key, s := range b.M.Shares {
		if strings.HasPrefix(key, "edge.big.") && s.Min == 1 {
			shares++
		}
	}
	if shares != api.MaxServices || len(b.M.Insts) != api.MaxServices {
		t.Fatalf("%d shares, %d instances", shares, len(b.M.Insts))
	}
	list, err := store.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if len(e.Value) > wire.MaxMessageBytes {
			t.Errorf("%s has %d bytes", e.Key, len(e.Value))
		}
	}
	if err := b.Delete(t.Context(), "big"); err != nil {
		t.Fatal(err)
	}
	settle()
	if len(b.M.Shares) != 0 || len(b.M.Apps) != 0 || len(b.M.Insts) != 0 {
		t.Errorf("%d shares, %d applications, %d instances are left", len(b.M.Shares), len(b.M.Apps), len(b.M.Insts))
	}
}
