package quota

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

func asks(services ...*api.Service) wire.Quota {
	spec := &api.Application{Services: map[string]*api.Service{}}
	for i, s := range services {
		spec.Services[string(rune('a'+i))] = s
	}
	return Of(spec)
}

func service(replicas int, cpu api.CPU, memory api.Bytes) *api.Service {
	return &api.Service{Replicas: api.Replicas{Min: replicas, Max: replicas}, Resources: api.Resources{CPU: cpu, Memory: memory, Disk: 10}}
}

func TestOf(t *testing.T) {
	got := asks(service(3, 500, 1<<20), service(2, 100, 1<<10))
	want := wire.Quota{CPU: 1700, Memory: 3<<20 + 2<<10, Disk: 50, Instances: 5, Applications: 1}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := asks(&api.Service{Replicas: api.Replicas{Min: 1, Max: 4}}); got.Instances != 4 {
		t.Errorf("a service that may grow to 4 asks for %d", got.Instances)
	}
	huge := asks(service(1000, math.MaxInt64/2, 1), service(1000, math.MaxInt64/2, 1))
	if huge.CPU != math.MaxInt64 {
		t.Errorf("too much is %d", huge.CPU)
	}
}

// Devices and bandwidth count as everything else does: whatever a service reserves.
func TestEveryResourceCounts(t *testing.T) {
	each := api.Resources{CPU: 1, Memory: 2, Disk: 3, VGPUs: 500, VTPUs: 1000, Bandwidth: api.Bandwidth{In: 1e6, Out: 2e6}}
	got := asks(&api.Service{Replicas: api.Replicas{Min: 3, Max: 3}, Resources: each})
	want := wire.Quota{CPU: 3, Memory: 6, Disk: 9, VGPUs: 1500, VTPUs: 3000, BandwidthIn: 3e6, BandwidthOut: 6e6, Instances: 3, Applications: 1}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if more := More(3, Each{Resources: each}, 0, Each{}); !reflect.DeepEqual(Add(more, wire.Quota{Applications: 1}), want) {
		t.Errorf("more than nothing is %+v", more)
	}
	if less := More(1, Each{Resources: each}, 3, Each{Resources: each}); !less.IsZero() {
		t.Errorf("less is %+v", less)
	}
	q := wire.Quota{VGPUs: 1000, VTPUs: 2500, BandwidthIn: 2e6, BandwidthOut: 6e6}
	if got, want := Exceeded(q, wire.Quota{}, wire.Quota{}, got), "vgpus: 1 allowed, 0 used, 1.5 asked for, 0.5 too much; "+
		"vtpus: 2.5 allowed, 0 used, 3 asked for, 0.5 too much; bandwidth-in: 2Mbps allowed, 0bps used, 3Mbps asked for, 1Mbps too much"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	// A field that is added to Quota is to be bounded too, or to be left out here.
	v := reflect.ValueOf(quotaOf(7))
	for i := range v.NumField() {
		if v.Type().Field(i).Name == "Devices" { // TestDevicesCount
			continue
		}
		if v.Field(i).Int() != 7 {
			t.Errorf("nothing bounds %s", v.Type().Field(i).Name)
		}
	}
	if got := Add(quotaOf(math.MaxInt64-1), quotaOf(2)); get(&got, 3) != math.MaxInt64 {
		t.Errorf("too much is %+v", got)
	}
}

// quotaOf is n of everything.
func quotaOf(n int64) (q wire.Quota) {
	for k := range bounded {
		set(&q, k, n)
	}
	return q
}

// Devices of any type count by their number, those that are resources as these.
func TestDevicesCount(t *testing.T) {
	s := service(3, 1, 1)
	s.Resources.VGPUs = 500
	s.Devices = []api.DeviceNeed{{Type: "camera", Count: 2}, {Type: "gpu", Model: []string{"a10"}}}
	got := asks(s, &api.Service{Replicas: api.Replicas{Min: 1, Max: 1}, Devices: []api.DeviceNeed{{Type: "camera", Count: 1}, {Type: "lidar", Count: 1}}})
	if want := map[string]int{"camera": 7, "lidar": 1}; !reflect.DeepEqual(got.Devices, want) || got.VGPUs != 1500 {
		t.Fatalf("%+v, want %v and 1.5 GPUs", got, want)
	}
	q, none := wire.Quota{Devices: map[string]int{"camera": 6, "microphone": 1}}, wire.Quota{}
	for name, c := range map[string]struct{ got, want string }{
		"too many":        {Exceeded(q, none, none, got), "device.camera: 6 allowed, 0 used, 7 asked for, 1 too much"},
		"with others":     {Exceeded(q, got, none, asks(&api.Service{Replicas: api.Replicas{Max: 1}, Devices: []api.DeviceNeed{{Type: "camera", Count: 1}}})), "device.camera: 6 allowed, 7 used, 8 asked for, 2 too much"},
		"no more of it":   {Exceeded(q, got, none, asks(service(1, 1, 1))), ""},
		"fewer than were": {Exceeded(q, none, wire.Quota{Devices: map[string]int{"camera": 9}}, got), ""},
		"over":            {Over(q, got), "device.camera: 6 allowed, 7 used"},
		"within":          {Over(q, wire.Quota{Devices: map[string]int{"camera": 6}}), ""},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", name, c.got, c.want)
		}
	}
	more := More(3, Needs(s), 1, Needs(s))
	if want := map[string]int{"camera": 4}; !reflect.DeepEqual(more.Devices, want) || !More(1, Needs(s), 3, Needs(s)).IsZero() {
		t.Errorf("more are %v, want %v; and fewer are %+v", more.Devices, want, More(1, Needs(s), 3, Needs(s)))
	}
	huge := Add(wire.Quota{Devices: map[string]int{"camera": math.MaxInt}}, got)
	if huge.Devices["camera"] != math.MaxInt {
		t.Errorf("too many are %d", huge.Devices["camera"])
	}
}

func TestCheck(t *testing.T) {
	many := map[string]int{}
	for n := range wire.MaxQuotaDevices + 1 {
		many[fmt.Sprint("d", n)] = 1
	}
	for name, c := range map[string]struct {
		devices map[string]int
		want    string
	}{
		"none":           {nil, ""},
		"some":           {map[string]int{"camera": 1, "lidar-2": 1_000_000}, ""},
		"a GPU":          {map[string]int{"gpu": 1}, "bounded by vgpus"},
		"no name":        {map[string]int{"": 1}, "not a type"},
		"no type":        {map[string]int{"Camera!": 1}, "not a type"},
		"none of it":     {map[string]int{"camera": 0}, "not between 1 and"},
		"negative":       {map[string]int{"camera": -1}, "not between 1 and"},
		"too many":       {map[string]int{"camera": 1_000_001}, "not between 1 and"},
		"too many types": {many, "at most 64"},
	} {
		err := Check(wire.Quota{Devices: c.devices})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestOverAndMore(t *testing.T) {
	q := wire.Quota{CPU: 1000, Memory: 1 << 30, Disk: 1 << 30, Instances: 2, Applications: 1}
	if got := Over(q, wire.Quota{CPU: 1000, Memory: 1 << 30, Disk: 1 << 30, Instances: 2, Applications: 1}); got != "" {
		t.Errorf("what fits is over by %q", got)
	}
	want := "cpu: 1 allowed, 2 used; memory: 1Gi allowed, 2Gi used; disk: 1Gi allowed, 2Gi used; instances: 2 allowed, 3 used; applications: 1 allowed, 2 used"
	if got := Over(q, wire.Quota{CPU: 2000, Memory: 2 << 30, Disk: 2 << 30, Instances: 3, Applications: 2}); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := Over(wire.Quota{}, wire.Quota{Instances: 1 << 40}); got != "" {
		t.Errorf("without a bound it is over by %q", got)
	}
	each := Each{Resources: api.Resources{CPU: 100, Memory: 10}}
	for name, c := range map[string]struct {
		got, want wire.Quota
	}{
		"more of the same": {More(3, each, 1, each), wire.Quota{CPU: 200, Memory: 20, Instances: 2}},
		"larger ones":      {More(1, Each{Resources: api.Resources{CPU: 150, Memory: 5}}, 1, each), wire.Quota{CPU: 50}},
		"fewer":            {More(0, each, 2, each), wire.Quota{}},
		"nonsense":         {More(-1, Each{Resources: api.Resources{CPU: -5}}, 0, each), wire.Quota{}},
		"its own":          {More(2, each, 0, Each{}), wire.Quota{CPU: 200, Memory: 20, Instances: 2}},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, c.got, c.want)
		}
	}
}

func TestExceeded(t *testing.T) {
	q := wire.Quota{CPU: 2000, Memory: 1 << 30, Instances: 4, Applications: 2}
	none := wire.Quota{}
	small, big := asks(service(1, 500, 1<<20)), asks(service(3, 1000, 1<<30))
	for name, c := range map[string]struct {
		quota, others, before, after wire.Quota
		want                         []string
	}{
		"fits":                      {q, none, none, small, nil},
		"fits exactly":              {q, none, none, asks(service(4, 500, 1<<28)), nil},
		"no bounds":                 {none, big, none, big, nil},
		"too big":                   {q, small, none, big, []string{"cpu: 2 allowed, 500m used, 3500m asked for, 1500m too much", "memory: 1Gi allowed, 1Mi used, 3073Mi asked for, 2049Mi too much"}},
		"one too many":              {q, wire.Quota{Applications: 2}, none, small, []string{"applications: 2 allowed, 2 used, 3 asked for, 1 too much"}},
		"smaller, still over":       {q, none, big, asks(service(3, 900, 1<<29)), nil},
		"the same, over":            {q, big, big, big, nil},
		"more of one, less of else": {q, none, asks(service(3, 1000, 1)), asks(service(5, 600, 1)), []string{"instances: 4 allowed, 3 used, 5 asked for, 1 too much"}},
	} {
		got := Exceeded(c.quota, c.others, c.before, c.after)
		if got != strings.Join(c.want, "; ") {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
