package agent

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/agent/engineclient"
	"github.com/verge-edge/verge/internal/agent/engineconfig"
	"github.com/verge-edge/verge/internal/agent/probe/hardware"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/wire"
)

// A device that is unplugged is offered no more, and again when it is back; one that is
// added says how it comes to be offered. Nothing is said twice.
func TestDevicesComeAndGo(t *testing.T) {
	root := machine(t, fstest.MapFS{"dev/video0": {}, "dev/card0": {}})
	set := []engineapi.DeviceNode{
		{Device: wire.Device{Type: "camera"}, Paths: []string{"/dev/video0"}},
		{Device: wire.Device{Type: "camera"}, Paths: []string{"/dev/video1"}},
		{Device: wire.Device{Type: api.DeviceGPU}, Paths: []string{"/dev/card0"}},
	}
	first, missing := hardware.DevicesOf(root, set, true, nil)
	a := &Agent{log: slog.New(slog.DiscardHandler), opts: Options{Devices: first, Missing: missing, Capacity: api.Resources{CPU: 1000, VGPUs: 1000}}}
	look := func() bool {
		found, missing := hardware.DevicesOf(root, set, true, first)
		return a.lookDevices(t.Context(), found, missing)
	}
	said := func() (ids, problems string, gpus api.Units) {
		t.Helper()
		b, err := a.status(true)
		if err != nil {
			t.Fatal(err)
		}
		var info wire.WorkerInfo
		if err := json.Unmarshal(b, &info); err != nil {
			t.Fatal(err)
		}
		for _, d := range info.Devices {
			ids += d.ID + " "
		}
		return ids, strings.Join(info.Problems, "\n"), info.Capacity.VGPUs
	}
	expect := func(when string, changed, want bool, devices string, units api.Units, words string) {
		t.Helper()
		ids, problems, gpus := said()
		if changed != want || ids != devices || gpus != units || !strings.Contains(problems, words) {
			t.Errorf("%s: changed %t, offered %q with %v, %q", when, changed, ids, gpus, problems)
		}
	}
	expect("at first", look(), false, "camera0 gpu0 ", 1000, "there is no /dev/video1")
	if err := os.Remove(filepath.Join(root, "dev/card0")); err != nil {
		t.Fatal(err)
	}
	expect("for a moment without the card", look(), true, "camera0 gpu0 ", 1000, "there is no /dev/card0")
	expect("without the card", look(), true, "camera0 ", 0, "device gpu0 is gone (/dev/card0); plug it in again")
	expect("still without it", look(), false, "camera0 ", 0, "device gpu0 is gone")
	for _, path := range []string{"dev/card0", "dev/video1"} {
		if err := os.WriteFile(filepath.Join(root, path), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	expect("all there", look(), true, "camera0 gpu0 ", 1000, "a camera has been added (/dev/video1), and is not offered: "+engineclient.ErrNotThere.Error()+"; stop the worker's engine")
	if _, problems, _ := said(); strings.Contains(problems, "gone") || strings.Contains(problems, "there is no") {
		t.Error(problems)
	}
	expect("nothing new", look(), false, "camera0 gpu0 ", 1000, "has been added")
	// One that is back at the next look was never gone.
	if err := os.Rename(filepath.Join(root, "dev/card0"), filepath.Join(root, "card")); err != nil {
		t.Fatal(err)
	}
	expect("absent once", look(), true, "camera0 gpu0 ", 1000, "has been added")
	if err := os.Rename(filepath.Join(root, "card"), filepath.Join(root, "dev/card0")); err != nil {
		t.Fatal(err)
	}
	expect("there again", look(), true, "camera0 gpu0 ", 1000, "has been added")
	if len(a.doubted) != 0 {
		t.Errorf("doubted: %v", a.doubted)
	}
}

// sockets is an engine that takes devices.
type sockets struct {
	engineclient.Client
	took []engineapi.EngineDevices
	err  error
}

func (s *sockets) Plug(_ context.Context, d engineapi.EngineDevices) error {
	if s.err == nil {
		s.took = append(s.took, d)
	}
	return s.err
}

// A device that is added is offered once the engine has taken it, under an id that none
// had before, and is in the configuration of the next engine. What the engine does not
// take is not offered, and tried again.
func TestAnAddedDeviceIsOffered(t *testing.T) {
	root, dir := machine(t, fstest.MapFS{"dev/card0": {}}), t.TempDir()
	set := []engineapi.DeviceNode{
		{Device: wire.Device{Type: api.DeviceGPU}, Paths: []string{"/dev/card0"}},
		{Device: wire.Device{Type: api.DeviceGPU}, Paths: []string{"/dev/card1"}},
	}
	first, missing := hardware.DevicesOf(root, set, true, nil)
	engine := &sockets{err: errors.New("it is busy")}
	a := &Agent{log: slog.New(slog.DiscardHandler), client: engine, opts: Options{Dir: dir, Devices: first, Missing: missing, Capacity: api.Resources{CPU: 1000, VGPUs: 1000}}}
	if err := engineconfig.Write(dir, engineapi.EngineConfig{V: wire.Version, Worker: "w1", Cluster: "edge", Devices: first, Capacity: a.opts.Capacity}); err != nil {
		t.Fatal(err)
	}
	look := func() (changed bool, ids string, gpus api.Units) {
		found, missing := hardware.DevicesOf(root, set, true, first)
		changed = a.lookDevices(t.Context(), found, missing)
		devices, capacity := a.offered()
		for _, d := range devices {
			ids += d.ID + " "
		}
		return changed, ids, capacity.VGPUs
	}
	// Another card takes the place of the first: it is not the one that was gpu0.
	if err := os.Rename(filepath.Join(root, "dev/card0"), filepath.Join(root, "dev/card1")); err != nil {
		t.Fatal(err)
	}
	look() // it was there a moment ago
	if changed, ids, gpus := look(); !changed || ids != "" || gpus != 0 || !strings.Contains(strings.Join(a.opts.Missing, "\n"), "is not offered: it is busy") {
		t.Errorf("the engine refuses it: %t, %q %v, %q", changed, ids, gpus, a.opts.Missing)
	}
	engine.err = nil
	if changed, ids, gpus := look(); !changed || ids != "gpu1 " || gpus != 1000 || len(engine.took) != 1 || engine.took[0].Devices[0].ID != "gpu1" {
		t.Errorf("the engine takes it: %t, %q %v, %+v", changed, ids, gpus, engine.took)
	}
	if changed, _, _ := look(); changed || len(engine.took) != 1 {
		t.Errorf("nothing is new: %t, %+v", changed, engine.took)
	}
	if cfg, err := engineconfig.Read(dir); err != nil || len(cfg.Devices) != 2 || cfg.Devices[1].ID != "gpu1" || cfg.Capacity.VGPUs != 2000 || cfg.Capacity.CPU != 1000 {
		t.Errorf("the next engine: %+v, %v", cfg, err)
	}
	if err := os.WriteFile(filepath.Join(root, "dev/card0"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if changed, ids, gpus := look(); !changed || ids != "gpu0 gpu1 " || gpus != 2000 || len(a.opts.Missing) != 0 {
		t.Errorf("both: %t, %q %v, %q", changed, ids, gpus, a.opts.Missing)
	}
}

// An agent that is started again finds an engine that has other devices than there are now:
// that is nothing to be said of its settings, since it is told of them while it runs. What is
// described otherwise is.
func TestDevicesChangeBetweenTwoAgents(t *testing.T) {
	device := func(id, path, model string) engineapi.DeviceNode {
		return engineapi.DeviceNode{Device: wire.Device{ID: id, Type: api.DeviceGPU, Model: model}, Paths: []string{path}}
	}
	had := engineapi.EngineConfig{V: wire.Version, Devices: []engineapi.DeviceNode{device("gpu0", "/dev/a", "x"), device("gpu1", "/dev/b", "x")}}
	had.Capacity.VGPUs = 2000
	now := engineapi.EngineConfig{V: wire.Version, Devices: []engineapi.DeviceNode{device("gpu0", "/dev/b", "x"), device("gpu1", "/dev/c", "x")}}
	now.Capacity.VGPUs = 2000
	if engineconfig.Outdated(had, now) == "" {
		t.Error("nothing has changed")
	}
	got := adopted(had, now)
	if engineconfig.Outdated(had, got) != "" || !reflect.DeepEqual(got.Devices, had.Devices) || got.Capacity.VGPUs != 2000 {
		t.Errorf("%s: %+v", engineconfig.Outdated(had, got), got)
	}
	now.Devices[0].Model = "y"
	if got := engineconfig.Outdated(had, adopted(had, now)); !strings.Contains(got, "gpu1=/dev/b y") || strings.Contains(got, "/dev/c") {
		t.Errorf("%q", got)
	}
}

// machine makes a root with empty files of a machine.
func machine(t *testing.T, files fstest.MapFS) string {
	t.Helper()
	root := t.TempDir()
	if err := os.CopyFS(root, files); err != nil {
		t.Fatal(err)
	}
	return root
}
