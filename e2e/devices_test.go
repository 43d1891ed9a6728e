package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestDevices: instances get devices of their workers, each has them for itself, and
// what has no room is told why. The devices are files here: what a worker counts and
// hands out is a path.
func TestDevices(t *testing.T) {
	t.Parallel()
	w := newRoot(t)
	w.addCluster("edge", "--share-details")
	w.cluster["edge"].answers()
	dir := t.TempDir()
	for _, name := range []string{"card", "eye"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.addWorker("edge", "plain", "--device", "none", "--bandwidth", "none")
	w.addWorker("edge", "rich", "--device", "none", "--device", "gpu="+dir+"/card,model=NVIDIA A10,count=2",
		"--device", "camera="+dir+"/eye", "--bandwidth", "in=100Mbps,out=20Mbps")
	w.allReady()

	app := func(replicas, needs string) string {
		return "application: vision\nservices:\n  infer:\n    command: [sh, -c, 'echo has $VERGE_DEVICES at $VERGE_DEVICE_GPU; exec sleep 1000']\n    replicas: " +
			replicas + "\n    " + strings.ReplaceAll(needs, "\n", "\n    ") + "\n"
	}
	const half = "resources: {vgpus: 0.5, bandwidth: {out: 4Mbps}}\ndevices: [{type: gpu, model: a10}]"
	w.root.apply(app("3", half))
	held := map[string]int{}
	for _, i := range w.root.instances("vision") {
		wantEqual(t, "worker of "+i.ID, i.Worker, "rich")
		_, what, _ := strings.Cut(w.root.ok("logs", i.ID), "has ")
		held[strings.TrimSpace(what)]++
	}
	if held["gpu0 at "+dir+"/card"]+held["gpu1 at "+dir+"/card"] != 3 || len(held) != 2 {
		t.Errorf("the instances have %v, want two halves of one card and one of the other", held)
	}
	if text := w.root.ok("explain", "vision.infer.0"); !strings.Contains(text, "vgpus 0.5, device gpu of model a10, bandwidth out 4Mbps") || !strings.Contains(text, "plain: has not 0.5 of a gpu of model a10") {
		t.Errorf("explain says\n%s", text)
	}
	text := w.root.ok("describe", "worker/edge/rich")
	for _, want := range []string{"gpu nvidia-a10", "1.5 of 2 reserved", "12Mbps of 20Mbps reserved", "camera0"} {
		if !strings.Contains(text, want) {
			t.Errorf("describe worker does not say %q\n%s", want, text)
		}
	}

	for needs, why := range map[string]string{
		"resources: {vgpus: 1}": "needs 1 vgpus, largest free 0.5",
		"resources: {vgpus: 3}": "has not 3 gpus",
		"resources: {vgpus: 1}\ndevices: [{type: gpu, model: h100}]": "has not a gpu of model h100",
		"devices: [{type: lidar}]":                                   "has not a lidar",
		"resources: {bandwidth: {in: 200Mbps}}":                      "needs 200Mbps bandwidth in",
	} {
		r := verge(t, w.root.contextFile(), "apply", "--timeout", "3s", w.file("app-", strings.Replace(app("1", needs), "vision", "more", 1)))
		if r.code != 2 || !strings.Contains(r.out+r.err, why) {
			t.Errorf("%s: exit code %d, want %q\n%s%s", needs, r.code, why, r.out, r.err)
		}
	}
	// The last of them may get its card now, which the next would have to wait for.
	w.root.ok("delete", "application/more")
	w.root.ok("delete", "application/vision")
	w.root.apply(strings.Replace(app("1", "resources: {vgpus: 2}\ndevices: [{type: camera}]"), "vision", "more", 1))
	if text := w.root.ok("logs", "more.infer.0"); !strings.Contains(text, "has gpu0,gpu1,camera0 at "+dir+"/card") {
		t.Errorf("with both cards and the camera it says\n%s", text)
	}
}

// TestDevicesThatComeAndGo: a device that is plugged in while its worker runs is given to
// who waits for one, and an instance whose device is gone moves to another worker that has
// one. What runs beside it goes on.
func TestDevicesThatComeAndGo(t *testing.T) {
	t.Parallel() // it waits for two looks, half a minute apart
	w := newRoot(t)
	w.addCluster("edge", "--share-details")
	w.cluster["edge"].answers()
	dir := t.TempDir()
	for _, name := range []string{"one", "two"} {
		w.addWorker("edge", name, "--device", "none", "--device", "camera="+filepath.Join(dir, name))
	}
	w.allReady()
	plug := func(name string) {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := verge(t, w.root.contextFile(), "apply", "--timeout", "2s", w.file("app-", `application: watch
services:
  eye:
    command: [sh, -c, 'echo has $VERGE_DEVICES at $VERGE_DEVICE_CAMERA; exec sleep 1000']
    devices: [{type: camera}]
  beside:
    command: [sleep, "1000"]
    replicas: 2
`))
	if r.code != 2 || !strings.Contains(r.out+r.err, "has not a camera") {
		t.Errorf("without a camera: exit code %d\n%s", r.code, r.out+r.err)
	}
	var before map[string]int
	for _, name := range []string{"one", "two"} {
		plug(name)
		if name == "two" {
			if err := os.Remove(filepath.Join(dir, "one")); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, 100*time.Second, "it runs on worker "+name, func() error {
			i := w.root.instances("watch")["watch.eye.0"]
			return errors.Join(differs("worker", i.Worker, name), differs("ready", i.Ready, true))
		})
		if logs := w.root.ok("logs", "watch.eye.0"); !strings.Contains(logs, "has camera0 at "+filepath.Join(dir, name)) {
			t.Errorf("it says %q", logs)
		}
		now := w.pids("watch")
		for _, id := range []string{"watch.beside.0", "watch.beside.1"} {
			if before != nil && now[id] != before[id] {
				t.Errorf("%s was started again", id)
			}
		}
		before = now
	}
	if said := w.root.ok("describe", "instance/watch.eye.0"); !strings.Contains(said, "its device camera0 is gone from worker one") {
		t.Errorf("describe says\n%s", said)
	}
	if said := w.root.ok("describe", "worker/edge/one"); !strings.Contains(said, "there is no "+filepath.Join(dir, "one")) {
		t.Errorf("describe says\n%s", said)
	}
}
