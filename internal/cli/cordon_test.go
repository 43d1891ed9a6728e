package cli

import (
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/wire"
)

func TestCordon(t *testing.T) {
	fake := world()
	f := newFixture(t, fake)
	for _, step := range []struct {
		name string
		args []string
	}{
		{"cordon", []string{"cordon", "worker/w1", "--reason", "a new disk"}},
		{"cordon-cluster", []string{"cordon", "cluster", "fog"}},
		{"cordon-bare-name", []string{"cordon", "w1"}},
		{"cordon-wrong-kind", []string{"cordon", "application/guestbook"}},
		{"cordon-missing", []string{"cordon", "worker/edge/w9"}},
	} {
		f.golden(step.name, f.run(step.args...), step.args...)
	}
	fake = world()
	fake.WorkerList[0].Cordon = &wire.Cordon{At: ago(300e9), By: "admin/ann", Why: "a new disk"}
	fake.WorkerList[1].Cordon = &wire.Cordon{At: ago(30e9), By: "admin/bob", Drain: true}
	fake.ClusterList[2].Cordon = &wire.Cordon{At: ago(60e9), By: "admin/ann"}
	f = newFixture(t, fake)
	for _, step := range []struct {
		name string
		args []string
	}{
		{"cordon-get-workers", []string{"get", "workers"}},
		{"cordon-get-clusters", []string{"get", "clusters"}},
		{"cordon-describe-worker", []string{"describe", "worker/w1"}},
		{"cordon-describe-drained", []string{"describe", "worker/w2"}},
		{"cordon-describe-cluster", []string{"describe", "cluster/fog"}},
		{"uncordon", []string{"uncordon", "worker/edge/w1"}},
		{"uncordon-cluster", []string{"uncordon", "cluster/fog"}},
	} {
		f.golden(step.name, f.run(step.args...), step.args...)
	}
	if r := f.run("get", "clusters"); strings.Contains(r.stdout, "fog       disconnected,cordoned") {
		t.Errorf("not uncordoned: %s", r.stdout)
	}
}
