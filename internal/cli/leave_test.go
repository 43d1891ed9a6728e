package cli

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/rest/resttest"
)

func TestTakingNodesOut(t *testing.T) {
	f := newFixture(t, world())
	for _, step := range []struct {
		name string
		args []string
	}{
		{"remove-bare-name", []string{"remove", "w1"}},
		{"remove-wrong-kind", []string{"remove", "application/guestbook"}},
		{"remove-missing", []string{"remove", "worker/edge/w9"}},
		{"revoke-worker", []string{"revoke", "worker/w1"}},
		{"revoke-cluster", []string{"revoke", "cluster/fog"}},
		{"revoke-plugin", []string{"revoke", "plugin/sage"}},
		{"revoke-plugin-missing", []string{"revoke", "plugin/nobody"}},
		{"remove-worker", []string{"remove", "worker/edge/w1", "--force"}},
		{"remove-cluster", []string{"remove", "cluster", "fog"}},
	} {
		f.golden(step.name, f.run(step.args...), step.args...)
	}
	if n := len(f.fake.ClusterList); n != 2 {
		t.Errorf("%d clusters are left", n)
	}
}

func TestCA(t *testing.T) {
	old := apiv1.CAAuthority{ID: "0123456789abcdef", Made: ago(4000 * 24 * time.Hour),
		Expires: noon.Add(-24 * time.Hour)}
	next := apiv1.CAAuthority{ID: "fedcba9876543210", Made: ago(time.Hour), Expires: noon.Add(3650 * 24 * time.Hour)}
	soon := noon.Add(100 * 24 * time.Hour)
	fake := &resttest.Fake{NodeData: resttest.NodeData{CAState: apiv1.CAView{
		Authorities: []apiv1.CAAuthority{old, next}, Rotating: true, Server: soon,
		Members: []apiv1.CAMember{
			{Name: "cluster/cloud", Expires: soon, Current: true},
			{Name: "cluster/edge", Expires: soon, Current: true, Behind: 2, Away: true},
			{Name: "cluster/fog"},
		},
		Behind: []string{"cluster/edge: 2 of its workers (it is away)", "cluster/fog"},
	}}}
	f := newFixture(t, fake)
	for _, step := range []struct {
		name string
		args []string
	}{
		{"ca-status", []string{"ca", "status"}},
		{"ca-status-json", []string{"ca", "status", "-o", "json"}},
		{"ca-rotate", []string{"ca", "rotate"}},
		{"ca-rotate-force-alone", []string{"ca", "rotate", "--force"}},
		{"ca-rotate-both", []string{"ca", "rotate", "--finish", "--abort"}},
	} {
		f.golden(step.name, f.run(step.args...), step.args...)
	}
	fake.CAState.Behind = nil
	fake.CAState.Members = fake.CAState.Members[:1]
	f.golden("ca-status-all-follow", f.run("ca", "status"), "ca", "status")
	fake.CAState.Rotating, fake.CAState.Authorities = false, []apiv1.CAAuthority{next}
	f.golden("ca-rotate-finish", f.run("ca", "rotate", "--finish", "--force"), "ca", "rotate", "--finish", "--force")
	want := []apiv1.CARotateRequest{{Step: "start"}, {Step: "finish", Force: true}}
	if !slices.Equal(fake.Rotations, want) {
		t.Errorf("asked for %+v, want %+v", fake.Rotations, want)
	}
	if r := f.run("ca", "rotate", "--abort"); r.code != 0 || strings.Contains(r.stderr, "next") {
		t.Errorf("abort: %+v", r)
	}
}
