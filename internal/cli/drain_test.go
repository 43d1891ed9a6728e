package cli

import (
	"testing"

	"github.com/verge-edge/verge/internal/rest/resttest"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

func left(items ...rpc.DrainItem) rpc.DrainView {
	return rpc.DrainView{Cordon: &wire.Cordon{At: noon, Drain: true}, Left: items, Source: "cluster/edge"}
}

// drains is a fleet of which each question about a drain shows the next step.
func drains(steps ...rpc.DrainView) *resttest.Fake {
	f := world()
	asked := 0
	f.Hook = func(f *resttest.Fake, op string) error {
		if op == "drain" {
			f.Drain = steps[min(asked, len(steps)-1)]
			asked++
		}
		return nil
	}
	return f
}

func TestDrainShowsEachStep(t *testing.T) {
	moving := rpc.DrainItem{Instance: "shop.web.0", State: "moving", To: "w2", Why: "not ready there yet"}
	ending := rpc.DrainItem{Instance: "shop.web.0", State: "ending", To: "w2", Why: "its connections end, and it stops"}
	waiting := rpc.DrainItem{Instance: "shop.web.1", State: "waiting", Why: "another of its service moves first"}
	next := rpc.DrainItem{Instance: "shop.web.1", State: "moving", To: "w3", Why: "not ready there yet"}
	stays := rpc.DrainItem{Instance: "shop.db.0", State: "stays",
		Why: "its volume data is on that worker and nowhere else"}
	for name, tc := range map[string]struct {
		args  []string
		steps []rpc.DrainView
	}{
		"drain": {[]string{"drain", "worker/w1", "--reason", "disk"},
			[]rpc.DrainView{left(moving, waiting), left(moving, waiting), left(ending, waiting), left(next), left()}},
		"drain-cluster":   {[]string{"drain", "cluster/edge"}, []rpc.DrainView{left()}},
		"drain-stays":     {[]string{"drain", "worker/edge/w1"}, []rpc.DrainView{left(stays, moving), left(stays)}},
		"drain-timeout":   {[]string{"drain", "worker/w1", "--timeout", "2s"}, []rpc.DrainView{left(moving, stays)}},
		"drain-no-wait":   {[]string{"drain", "worker/w1", "--no-wait"}, nil},
		"drain-uncordon":  {[]string{"drain", "worker/w1"}, []rpc.DrainView{left(moving), {}}},
		"drain-bad-kind":  {[]string{"drain", "instance/shop.web.0"}, nil},
		"drain-bare-name": {[]string{"drain", "cluster"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, drains(tc.steps...))
			f.golden(name, f.run(tc.args...), tc.args...)
		})
	}
}
