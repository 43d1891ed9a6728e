package e2e

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/runtime/container/containertest"
)

// apart is a machine whose processes have mounts of their own, too: what they mount
// is not seen by a containerd that runs elsewhere.
type apart struct{ *machine }

func (a apart) do(f func() error) error {
	return a.machine.do(func() error {
		if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("mounts of its own: %w", err)
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
			return fmt.Errorf("keep mounts to oneself: %w", err)
		}
		return f()
	})
}

const networkedShop = `application: shop
services:
  web:
    runtime: container
    image: shop:1
    pull: never
    ports: [{name: http, ingress: {host: shop.test}}, {name: admin}]
    files: {/www/index.html: {content: "web ${PORT} ${PORT_ADMIN}"}}
    startup: {exec: {command: [sh, -c, "pidof httpd"]}, interval: 1s}
    readiness: {http: {path: /index.html}}
    stop: {grace: 1s}
  db:
    command: [busybox, httpd, -f, -p, "${PORT}", -h, "."]
    ports: [{name: http}]
    files: {index.html: {content: "db ${PORT}"}}
    stop: {grace: 1s}
`

const otherApplication = `application: other
services:
  spy:
    runtime: container
    image: shop:1
    pull: never
    command: [httpd, -f, -p, "${PORT}"]
    ports: [{name: http}]
    readiness: {tcp: {}}
    stop: {grace: 1s}
`

// TestContainersInTheNetwork runs containers and processes side by side in the
// service network of a worker that has network and mounts of its own, while
// containerd has those of the machine.
func TestContainersInTheNetwork(t *testing.T) {
	needMachines(t)
	t.Parallel() // it waits much more than it computes
	w := onMachines(t)
	ctd := containertest.Need(t) // ends before the world does, which it keeps busy
	program := filepath.Join(programs.dir, "testprogram")
	image, err := containertest.Build(containertest.Config{Entrypoint: []string{"/bin/sh", "-c"}, Cmd: []string{"echo started; exec httpd -f -p $PORT -h /www"}}, program)
	if err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(t.TempDir(), "shop.tar")
	if err := containertest.Save(archive, "shop:1", image); err != nil {
		t.Fatal(err)
	}
	plain := w.settle
	w.settle = func(name string) spot {
		if name == "edge-1" {
			return apart{plain(name).(*machine)}
		}
		return plain(name)
	}
	w.startRoot()
	w.addCluster("edge").answers()
	node := w.addWorker("edge", "edge-1", "--containerd", ctd.Address, "--network", "overlay")
	w.allReady()
	at := w.spots["edge-1"].(apart).machine
	if r := verge(t, w.root.contextFile(), "image", "load", archive, "--containerd", ctd.Address); r.code != 0 {
		t.Fatalf("load: %+v", r)
	}
	w.root.apply(networkedShop)
	w.root.holds("shop", 60*time.Second)
	w.root.apply(otherApplication)
	w.root.holds("other", 60*time.Second)

	in := func(instance, script string) string {
		t.Helper()
		r := verge(t, w.root.contextFile(), "exec", instance, "--", "busybox", "sh", "-c", script)
		return strings.TrimSpace(r.out)
	}
	get := func(instance, url string) string {
		return in(instance, program+" get http://"+url+"/index.html || echo nothing")
	}
	reach := func() {
		t.Helper()
		for _, x := range []struct{ from, url, want string }{
			{"shop.web.0", "db", "db 80"},
			{"shop.web.0", "closest.db", "db 80"},
			{"shop.web.0", "$VERGE_DB_ADDR", "db 80"},
			{"shop.web.0", "127.0.0.1", "web 80 8001"},
			{"shop.db.0", "web", "web 80 8001"},
			{"shop.db.0", "0.instance.web.default.shop.default.verge.internal", "web 80 8001"},
			{"shop.db.0", "$VERGE_WEB_ADDR", "web 80 8001"},
		} {
			eventually(t, 20*time.Second, x.from+" gets "+x.url, func() error {
				if got := get(x.from, x.url); got != x.want {
					return fmt.Errorf("%q, want %q", got, x.want)
				}
				return nil
			})
		}
		eventually(t, 20*time.Second, "the gateway answers", func() error {
			got, err := fetch(node.gateway, "shop.test", "/index.html")
			if err == nil && got != "web 80 8001" {
				err = fmt.Errorf("it says %q", got)
			}
			return err
		})
	}
	reach()
	if got := in("shop.web.0", "cat /etc/resolv.conf"); !strings.Contains(got, "search default.shop.default.verge.internal") {
		t.Errorf("its resolv.conf: %q", got)
	}
	if got := in("shop.web.0", "echo $PORT $PORT_HTTP $PORT_ADMIN"); got != "80 80 8001" {
		t.Errorf("its ports: %q", got)
	}
	if r := verge(t, w.root.contextFile(), "logs", "shop.web.0"); !strings.Contains(r.out, "started") {
		t.Errorf("logs: %+v", r)
	}
	// Nobody but its own application.
	web := w.root.instances("shop")["shop.web.0"]
	if len(web.Addrs) == 0 {
		t.Fatalf("no addresses: %+v", web)
	}
	for _, a := range web.Addrs {
		host := a.String()
		if a.Is6() {
			host = "[" + host + "]"
		}
		if got := get("shop.db.0", host); got != "web 80 8001" {
			t.Errorf("its own application at %s: %q", host, got)
		}
		if got := get("other.spy.0", host); got != "nothing" {
			t.Errorf("another application at %s: %q", host, got)
		}
	}
	if got := get("other.spy.0", "web.default.shop.default.verge.internal"); got != "nothing" {
		t.Errorf("another application by name: %q", got)
	}

	w.run("the engine dies", func(t *testing.T) {
		if err := syscall.Kill(enginePID(t, node), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		w.allReady()
		w.root.holds("shop", 30*time.Second)
		reach()
		if v := w.root.instances("shop")["shop.web.0"]; v.Restarts != 0 || v.Addrs[0] != web.Addrs[0] {
			t.Errorf("was %+v, is %+v", web, v)
		}
	})
	w.run("the worker dies and what it runs is deleted", func(t *testing.T) {
		w.root.ok("delete", "application/other", "--timeout", "40s")
		pid := enginePID(t, node)
		node.kill()
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		w.root.ok("delete", "application/shop", "--no-wait")
		node.start()
	})
	if t.Failed() {
		return
	}
	eventually(t, 30*time.Second, "nothing is left", func() error {
		left, err := ctd.Left()
		if err == nil && left != "" {
			err = errors.New(left)
		}
		if err != nil {
			return err
		}
		return at.do(func() error {
			all, err := net.Interfaces()
			if err != nil {
				return err
			}
			for _, d := range all {
				if strings.HasPrefix(d.Name, "vg") && strings.Contains(d.Name, "i") {
					return fmt.Errorf("device %s", d.Name)
				}
			}
			// The last to go: an engine removes it after its device.
			if left, _ := filepath.Glob(filepath.Join(node.dir, "netns", "*")); len(left) > 0 {
				return fmt.Errorf("namespaces %s", left)
			}
			return nil
		})
	})
}
