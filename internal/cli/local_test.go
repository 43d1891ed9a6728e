package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/rest/resttest"
	"github.com/verge-edge/verge/internal/wire"
)

// changed is a cluster at which services were changed without the root.
func changed() *resttest.Fake {
	f := shop(2)
	scaled := wire.LocalChange{Cluster: "edge", App: "shop", Service: "web", Change: "scaled 1 → 2", By: "ops/anna",
		At: noon.Add(-10 * time.Minute), Base: 3, Replicas: 2}
	edited := wire.LocalChange{Cluster: "edge", App: "shop", Service: "db", Change: "changed env", By: "ops/anna",
		At: noon.Add(-time.Hour), Base: 2, Revision: wire.LocalRevisions + 1, Replicas: 1}
	f.Local = apiv1.LocalView{
		Changes: []wire.LocalChange{scaled},
		Conflicts: []wire.Conflict{{LocalChange: edited, ID: "1",
			Root: "revision 3 with 1 instance here; other than the local change: env", RootRevision: 3,
			Found: noon.Add(-time.Minute)}},
	}
	f.Apps[0].Revision, f.Apps[0].Local, f.Apps[0].Conflicts = wire.LocalRevisions+2, f.Local.Changes, f.Local.Conflicts
	f.State = apiv1.StatusView{Role: "cluster", Name: "edge", Version: "v-test", Started: noon.Add(-time.Hour),
		Time: noon, Upstream: "away: nobody answers",
		Apps: f.Apps, Local: f.Local.Changes, Conflicts: f.Local.Conflicts,
		Problems: apiv1.ConflictProblems(f.Local.Conflicts)}
	f.ClusterList = []apiv1.ClusterView{{Name: "edge", Connected: true, Joined: noon.Add(-time.Hour),
		Local: f.Local.Changes, Conflicts: f.Local.Conflicts}}
	return f
}

func TestLocalChangesAreShown(t *testing.T) {
	f := newFixture(t, changed())
	for name, line := range map[string]string{
		"local": "local", "local-json": "local -o json", "local-describe": "describe app/shop",
		"local-status": "status", "local-cluster": "describe cluster/edge", "local-get": "get apps",
		"local-drop-bad": "local drop shop/web", "local-ack-none": "local ack", "local-unknown": "local dorp",
	} {
		args := strings.Fields(line)
		f.golden(name, f.run(args...), args...)
	}
}

func TestLocalChangesAreTakenBackAndAcknowledged(t *testing.T) {
	fake := changed()
	f := newFixture(t, fake)
	for name, line := range map[string]string{"local-drop": "local drop shop.web", "local-ack": "local ack --all"} {
		args := strings.Fields(line)
		f.golden(name, f.run(args...), args...)
	}
	if len(fake.Local.Changes)+len(fake.Local.Conflicts) != 0 {
		t.Errorf("left: %+v", fake.Local)
	}
	for name, line := range map[string]string{"local-none": "local", "local-drop-missing": "local drop shop",
		"local-ack-missing": "local ack 9"} {
		args := strings.Fields(line)
		f.golden(name, f.run(args...), args...)
	}
}

// What is meant for one site is said to be, and only then.
func TestLocalIsMeant(t *testing.T) {
	file := "application: shop\nservices: {web: {command: [x]}}\n"
	for _, line := range []string{"apply - --no-wait", "delete application/shop --no-wait",
		"scale shop.web --replicas 2 --no-wait"} {
		for _, local := range []bool{false, true} {
			fake := shop(2)
			f := newFixture(t, fake)
			args := strings.Fields(line)
			if local {
				args = append(args, "--local")
			}
			if r := f.runWith(file, args...); r.code != 0 {
				t.Fatalf("%s: %s", line, r.stderr)
			}
			if fake.MeantLocal != local {
				t.Errorf("%v: meant for the site: %v", args, fake.MeantLocal)
			}
		}
	}
}
