package device

import (
	"strings"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// The worker's check refuses what cannot be.
func TestAdmitRefuses(t *testing.T) {
	devices := []Device{
		{Device: wire.Device{ID: "d0", Type: "gpu", Model: "a10"}, Used: 500},
		{Device: wire.Device{ID: "d1", Type: "gpu", Model: "a10"}}, {Device: wire.Device{ID: "d2", Type: "camera"}},
	}
	half := api.Resources{VGPUs: 500}
	for name, c := range map[string]struct {
		held   []wire.Held
		demand api.Resources
		list   []api.DeviceNeed
		want   string
	}{
		"it fits":          {[]wire.Held{{ID: "d0", Share: 500}}, half, nil, ""},
		"more than free":   {[]wire.Held{{ID: "d0", Share: 600}}, api.Resources{VGPUs: 600}, nil, "needs 0.6 of device d0, 0.5 free"},
		"not there":        {[]wire.Held{{ID: "d9", Share: 500}}, half, nil, "device d9, which is not on this worker"},
		"nothing given":    {nil, half, nil, "was not given the devices"},
		"too little given": {[]wire.Held{{ID: "d0", Share: 400}}, half, nil, "was not given the devices"},
		"another type":     {[]wire.Held{{ID: "d2", Share: 1000}}, half, nil, "was not given the devices"},
		"another model":    {[]wire.Held{{ID: "d0", Share: 500}}, half, []api.DeviceNeed{{Type: "gpu", Model: []string{"t4"}}}, "was not given the devices"},
		"negative":         {[]wire.Held{{ID: "d0", Share: -500}}, half, nil, "which cannot be"},
		"twice":            {[]wire.Held{{ID: "d1", Share: 500}, {ID: "d1", Share: 500}}, half, nil, "which cannot be"},
		"too much of one":  {[]wire.Held{{ID: "d1", Share: 2000}}, half, nil, "which cannot be"},
	} {
		if got := Admit(devices, c.held, c.demand, c.list); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
