package agent

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// A device that is unplugged is offered no more, and again when it is back; one that is
// added says how it comes to be offered. Nothing is said twice.
func TestDevicesComeAndGo(t *testing.T) {
	root := machine(t, map[string]string{"dev/video0": "", "dev/card0": ""})
	set := []wire.DeviceNode{
		{Device: wire.Device{Type: "camera"}, Paths: []string{"/dev/video0"}},
		{Device: wire.Device{Type: "camera"}, Paths: []string{"/dev/video1"}},
		{Device: wire.Device{Type: api.DeviceGPU}, Paths: []string{"/dev/card0"}},
	}
	first, missing := devicesOf(root, set, true, nil)
	a := &Agent{log: slog.New(slog.DiscardHandler), opts: Options{Devices: first, Missing: missing, Capacity: api.Resources{CPU: 1000, VGPUs: 1000}}}
	look := func() bool { return a.lookDevices(devicesOf(root, set, true, first)) }
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
	expect("without the card", look(), true, "camera0 ", 0, "device gpu0 is gone (/dev/card0); plug it in again")
	expect("still without it", look(), false, "camera0 ", 0, "device gpu0 is gone")
	for _, path := range []string{"dev/card0", "dev/video1"} {
		if err := os.WriteFile(filepath.Join(root, path), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	expect("all there", look(), true, "camera0 gpu0 ", 1000, "a camera has been added (/dev/video1); stop the worker's engine")
	if _, problems, _ := said(); strings.Contains(problems, "gone") || strings.Contains(problems, "there is no") {
		t.Error(problems)
	}
	expect("nothing new", look(), false, "camera0 gpu0 ", 1000, "has been added")
}
