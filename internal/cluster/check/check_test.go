package check_test

import (
	"math"
	"net/netip"
	"strings"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/check"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/policy/lease"
	"github.com/verge-edge/verge/internal/wire"
)

// A status is about the instance that it names and in a phase that there is; whatever is too
// long in it is cut off, and a negative number of restarts counts for nothing.
func TestCheck(t *testing.T) {
	const id = "app.web.0"
	for name, tc := range map[string]struct {
		st   wire.InstanceStatus
		want string // in the error; "" for none
	}{
		"sound":            {wire.InstanceStatus{ID: id, Phase: wire.PhaseRunning}, ""},
		"another instance": {wire.InstanceStatus{ID: "app.web.1", Phase: wire.PhaseRunning}, "about \"app.web.1\""},
		"no phase":         {wire.InstanceStatus{ID: id}, "no phase"},
		"another phase":    {wire.InstanceStatus{ID: id, Phase: "flying"}, "no phase \"flying\""},
	} {
		if err := check.Check(&tc.st, id); (err == nil) != (tc.want == "") ||
			err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	long := strings.Repeat("x", 1<<16)
	st := wire.InstanceStatus{ID: id, Phase: wire.PhaseRunning, Why: long, Restarts: math.MinInt,
		Addrs: make([]netip.Addr, 1000), LastExit: &wire.Exit{Signal: long, Why: long},
		Secrets: make([]wire.SecretHeld, 1000), Ports: map[string]int{long: 1},
		Volumes: &wire.VolumeReport{Why: long, Volumes: make([]wire.VolumeObject, 1000)}}
	st.Secrets[0].Name, st.Volumes.Volumes[0].Object = long, long
	if err := check.Check(&st, id); err != nil {
		t.Fatal(err)
	}
	if len(st.Why) > state.MaxWords+8 || st.Restarts != 0 || len(st.Addrs) > lease.MaxAddrs ||
		len(st.LastExit.Signal) > check.MaxName+8 || len(st.LastExit.Why) > state.MaxWords+8 ||
		len(st.Secrets) > 200 || len(st.Secrets[0].Name) > check.MaxName+8 || st.Ports != nil ||
		len(st.Volumes.Why) > state.MaxWords+8 || len(st.Volumes.Volumes) > 200 ||
		len(st.Volumes.Volumes[0].Object) > api.MaxObjectName+8 {
		t.Errorf("it is not bounded: %d of why, %d addresses, %d secrets, %d volumes", len(st.Why), len(st.Addrs),
			len(st.Secrets), len(st.Volumes.Volumes))
	}
}

// A share that nobody could act on is refused.
func TestShare(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*wire.Share)
		want   string
	}{
		"sound":                {func(*wire.Share) {}, ""},
		"another service":      {func(s *wire.Share) { s.Service = "db" }, "about \"app.db\""},
		"no service":           {func(s *wire.Share) { s.Spec = nil }, "no service"},
		"too many":             {func(s *wire.Share) { s.Min = api.MaxReplicas + 1 }, "at most"},
		"a negative ordinal":   {func(s *wire.Share) { s.Ordinals[0].From = -1 }, "ordinals"},
		"backwards":            {func(s *wire.Share) { s.Ordinals[0].From = 5 }, "ordinals"},
		"ordinals of a site":   {func(s *wire.Share) { s.Ordinals[0].To = wire.LocalOrdinals + 1 }, "ordinals"},
		"the last that it may": {func(s *wire.Share) { s.Ordinals[0].To = wire.LocalOrdinals }, ""},
	} {
		s := wire.Share{App: "app", Service: "web", Spec: &api.Service{}, Ordinals: []wire.Span{{To: 2}}}
		tc.change(&s)
		if err := check.Share(&s, "app.web"); (err == nil) != (tc.want == "") ||
			err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}
