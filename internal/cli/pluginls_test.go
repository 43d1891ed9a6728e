package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/rest/resttest"
)

// plugged is a world with scheduler plugins.
func plugged() *resttest.Fake {
	call := func(ago time.Duration, result, problem string) *apiv1.PluginCall {
		return &apiv1.PluginCall{At: noon.Add(-ago), Seconds: 0.0123, Result: result, Problem: problem, Services: 1,
			Instances: 3, Candidates: 40}
	}
	f := world()
	f.PluginList = []apiv1.PluginView{
		{
			Name: "ilp", Cluster: "edge", Registered: true, Address: "https://10.0.0.5:9100/place", Joint: true,
			Default: true, Services: 2,
			Calls: map[string]uint64{"answered": 12, "late": 2, "unreachable": 3}, Spared: 4, Failed: 3, Resting: true,
			Until:   noon.Add(40 * time.Second),
			Last:    call(20*time.Second, "unreachable", "connection refused"),
			Failure: call(20*time.Second, "unreachable", "connection refused"),
		},
		{Name: "old", Cluster: "edge",
			Identities: []apiv1.PluginIdentity{{ID: "0123456789ab", Joined: noon.AddDate(-2, 0, 0),
				Expires: noon.AddDate(-1, 0, 0)}}},
		{
			Name: "sage", Cluster: "edge", Registered: true, Address: "nats:", Services: 1, Open: 1,
			Calls: map[string]uint64{"answered": 7, "late": 1},
			Last:  call(time.Minute, "answered", ""), Failure: call(time.Hour, "late", "it did not answer in time"),
			Identities: []apiv1.PluginIdentity{{ID: "ba9876543210", Joined: noon.AddDate(0, 0, -3),
				Expires: noon.AddDate(1, 0, -3)}},
		},
		{Name: "young", Cluster: "edge", Registered: true, Address: "unix:///run/young.sock"},
	}
	return f
}

func TestPluginGolden(t *testing.T) {
	for name, line := range map[string]string{
		"plugin-ls":               "plugin ls",
		"plugin-ls-wide":          "plugin ls -o wide",
		"plugin-ls-name":          "plugin ls -o name",
		"plugin-describe-rests":   "plugin describe ilp",
		"plugin-describe-bus":     "plugin describe sage",
		"plugin-describe-gone":    "plugin describe old",
		"plugin-describe-json":    "plugin describe young -o json",
		"plugin-describe-missing": "plugin describe nobody",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, plugged())
			args := strings.Fields(line)
			f.golden(name, f.run(args...), args...)
		})
	}
}
