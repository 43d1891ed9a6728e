package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/runtime/container/containertest"
)

// TestContainers runs an image that is loaded from a file, through the death of the
// engine and of containerd, and leaves nothing behind.
func TestContainers(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	t.Parallel() // it waits much more than it computes
	ctd := containertest.Need(t)
	w := newRoot(t)
	w.addCluster("edge")
	w.cluster["edge"].answers()
	w.addWorker("edge", "edge-1", "--containerd", ctd.Address)
	w.allReady()
	image, err := containertest.Build(containertest.Config{Entrypoint: []string{"/bin/sh", "-c"}, Cmd: []string{"echo started; exec httpd -f -p $PORT -h /www"}})
	if err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(t.TempDir(), "shop.tar")
	if err := containertest.Save(archive, "shop:1", image); err != nil {
		t.Fatal(err)
	}
	const name = "docker.io/library/shop:1"
	if r := verge(t, w.root.contextFile(), "image", "load", archive, "--containerd", ctd.Address); r.code != 0 || r.out != "image "+name+" loaded\n" {
		t.Fatalf("load: %+v", r)
	}
	w.set("shop-key", "first")
	w.root.apply(`application: shop
services:
  web:
    runtime: container
    image: shop:1
    pull: never
    ports: [{name: http, ingress: {host: shop.test}}]
    files:
      /www/index.html: {content: "hello from ${VERGE_INSTANCE}"}
      /www/key: {secret: shop-key, mode: 0444}
    stop: {grace: 1s}
`)
	w.root.holds("shop", 60*time.Second)
	node := w.worker["edge-1"]
	asks := func(when string) {
		t.Helper()
		eventually(t, 20*time.Second, when, func() error {
			got, err := fetch(node.gateway, "shop.test", "/index.html")
			if err == nil && got != "hello from shop.web.0" {
				err = fmt.Errorf("it says %q", got)
			}
			return err
		})
	}
	asks("it answers")
	view := func() apiv1.InstanceView { return w.root.instances("shop")["shop.web.0"] }
	pid := func() int {
		t.Helper()
		out, err := ctd.Ctr("tasks", "ls")
		if err != nil {
			t.Fatal(out, err)
		}
		for line := range strings.Lines(out) {
			var id string
			var n int
			if _, err := fmt.Sscan(line, &id, &n); err == nil && strings.HasPrefix(id, "shop-web-0-") {
				return n
			}
		}
		return 0
	}
	key := func(want string) {
		t.Helper()
		eventually(t, 20*time.Second, "the container has its secret", func() error {
			got, err := fetch(node.gateway, "shop.test", "/key")
			if err != nil {
				return err
			}
			return differs("secret", got, want)
		})
	}
	key("first")
	was := pid()
	w.set("shop-key", "second")
	key("second")
	w.holdsSecret("shop-key", "1/1")
	wantEqual(t, "process of the container", pid(), was)
	before := pid()
	if before == 0 {
		t.Fatal("containerd does not have the container")
	}
	if r := verge(t, w.root.contextFile(), "exec", "shop.web.0", "--", "sh", "-c", "echo $VERGE_INSTANCE; ls /www; exit 4"); r.code != 4 || r.out != "shop.web.0\nindex.html\nkey\n" {
		t.Errorf("exec: %+v", r)
	}
	w.root.ok("cp", archive, "shop.web.0:/tmp/shop.tar")
	copied := filepath.Join(t.TempDir(), "index.html")
	w.root.ok("cp", "shop.web.0:/www/index.html", copied)
	wantFile(t, copied, "hello from shop.web.0")
	if r := verge(t, w.root.contextFile(), "exec", "shop.web.0", "--", "sh", "-c", "ls -ln /tmp/shop.tar; test -s /tmp/shop.tar"); r.code != 0 {
		t.Errorf("a file that was copied: %+v", r)
	}
	refused(t, "cp to its image", verge(t, w.root.contextFile(), "cp", archive, "shop.web.0:/bin/"), "read-only")
	refused(t, "cp from /proc", verge(t, w.root.contextFile(), "cp", "shop.web.0:/proc/1/environ", t.TempDir()), "is not copied")
	if r := verge(t, w.root.contextFile(), "logs", "shop.web.0"); r.code != 0 || !strings.Contains(r.out, "started") {
		t.Errorf("logs: %+v", r)
	}
	goesOn := func(what string) {
		t.Helper()
		w.allReady()
		w.root.holds("shop", 30*time.Second)
		asks("it answers after " + what)
		if now := pid(); now != before || view().Restarts != 0 {
			t.Errorf("after %s: pid %d instead of %d, %d restarts", what, now, before, view().Restarts)
		}
	}
	w.run("the engine dies", func(t *testing.T) {
		if err := syscall.Kill(enginePID(t, node), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		goesOn("the engine's death")
	})
	w.run("containerd dies", func(t *testing.T) {
		ctd.Kill()
		asks("it answers without containerd")
		if err := ctd.Start(); err != nil {
			t.Fatal(err)
		}
		goesOn("containerd's death")
	})
	w.run("out of memory", func(t *testing.T) {
		w.root.ok("apply", "--no-wait", w.file("greedy-", `application: greedy
services:
  eater:
    runtime: container
    image: shop:1
    command: [sh, -c, "x=aaaaaaaa; while :; do x=$$x$$x; done"]
    resources: {memory: 16Mi}
    restart: {policy: never}
`))
		eventually(t, 60*time.Second, "it was ended for want of memory", func() error {
			v := w.root.instances("greedy")["greedy.eater.0"]
			if v.LastExit == nil || !v.LastExit.OOM {
				return fmt.Errorf("%+v", v.LastExit)
			}
			return nil
		})
		w.root.ok("delete", "application/greedy", "--timeout", "40s")
	})
	if r := verge(t, w.root.contextFile(), "image", "rm", "shop:1", "--containerd", ctd.Address); r.code == 0 || !strings.Contains(r.err, "in use by shop.web.0") {
		t.Errorf("rm of what is in use: %+v", r)
	}
	w.root.ok("delete", "application/shop", "--timeout", "40s")
	eventually(t, 30*time.Second, "nothing is left", func() error {
		left, err := ctd.Left()
		if err == nil && left != "" {
			err = errors.New(left)
		}
		return err
	})
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", before)); err == nil {
		t.Errorf("process %d is left", before)
	}
	if r := verge(t, w.root.contextFile(), "image", "rm", "shop:1", "--containerd", ctd.Address); r.code != 0 {
		t.Errorf("rm: %+v", r)
	}
}
