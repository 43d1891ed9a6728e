package e2e

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

const (
	shopHost = "shop.test"
	kiosk    = "kiosk.test"
)

// shopOf is an application of the root, kioskOf one that is made at the site.
func shopOf(replicas int, mark string) string { return fronts("shop", shopHost, replicas, mark) }
func kioskOf(replicas int) string             { return fronts("kiosk", kiosk, replicas, "here") }

func fronts(app, host string, replicas int, mark string) string {
	return fmt.Sprintf(`application: %s
services:
  web:
    command: [testprogram]
    env: {MARK: %q}
    replicas: %d
    replace_after: 3s
    ports: [{name: http, ingress: {host: %s}}]
    readiness: {http: {path: /healthz}}
`, app, mark, replicas, host)
}

// TestTheSiteWithoutTheRoot does at a site, under traffic and with the root
// killed, what people do; then the root comes back.
func TestTheSiteWithoutTheRoot(t *testing.T) {
	t.Parallel() // it waits much more than it computes
	w := newWorld(t, 2, "edge")
	site := w.cluster["edge"]
	w.root.apply(shopOf(2, "1"))
	gates := []string{w.worker["edge-1"].gateway, w.worker["edge-2"].gateway}
	f := sendTraffic(t, shopHost, gates...)
	shop := w.pids("shop")

	t.Log("while the root is there it is asked to make changes")
	r := verge(t, site.contextFile(), "scale", "shop.web", "--replicas", "4")
	if r.code != 1 || !strings.Contains(r.err, "at the root") || !strings.Contains(r.err, "--local") {
		t.Errorf("a connected site: exit %d\n%s", r.code, r.err)
	}
	w.root.kill()
	site.away()

	t.Log("deploy, look at it, scale")
	site.apply(kioskOf(2))
	for _, gate := range gates {
		eventually(t, 5*time.Second, "the gateway serves it", func() error {
			_, err := fetch(gate, kiosk, "/whoami")
			return err
		})
	}
	kioskTraffic := sendTraffic(t, kiosk, gates...)
	if text := site.ok("get", "instances", "--app", "kiosk"); !strings.Contains(text, "kiosk.web.100000") {
		t.Errorf("instances:\n%s", text)
	}
	if text := site.ok("logs", "kiosk.web.100000"); !strings.Contains(text, "started") {
		t.Errorf("log:\n%s", text)
	}
	site.ok("explain", "instance/kiosk.web.100000")
	site.ok("scale", "shop.web", "--replicas", "4", "--timeout", "40s")
	more := w.pids("shop")
	wantEqual(t, "instances of shop", len(more), 4)
	for id, pid := range shop {
		wantEqual(t, "process of "+id, more[id], pid)
	}
	site.ok("restart", "instance/kiosk.web.100001", "--timeout", "40s")
	if text := site.ok("status"); !strings.Contains(text, "scaled 2 → 4") || !strings.Contains(text, "created, 2 instances") {
		t.Errorf("status:\n%s", text)
	}

	t.Log("a worker dies, and comes back as new")
	kioskTraffic.noneFailed(t)
	f.noneFailed(t)
	w.losesWorker(t, site, "edge-2")

	t.Log("the root is back: nothing is restarted, and it is told")
	pids, counts := everything(w), incarnations(site)
	f, kioskTraffic = sendTraffic(t, shopHost, gates...), sendTraffic(t, kiosk, gates...)
	w.root.start()
	w.root.answers()
	w.allReady()
	eventually(t, 15*time.Second, "the root shows the changes", func() error {
		text := w.root.ok("status")
		for _, want := range []string{"scaled 2 → 4", "created, 2 instances", "kiosk.web"} {
			if !strings.Contains(text, want) {
				return fmt.Errorf("no %q in\n%s", want, text)
			}
		}
		return nil
	})
	if text := w.root.ok("describe", "application/shop"); !strings.Contains(text, "scaled 2 → 4") {
		t.Errorf("describe says\n%s", text)
	}
	if text := w.root.ok("describe", "cluster/edge"); !strings.Contains(text, "kiosk.web") {
		t.Errorf("describe says\n%s", text)
	}
	w.root.holds("shop", 15*time.Second)
	throughout(t, 3*time.Second, "nothing is touched", func() error {
		if now := everything(w); !maps.Equal(now, pids) {
			return fmt.Errorf("processes were %v, are %v", pids, now)
		}
		return nil
	})
	if now := incarnations(site); !maps.Equal(now, counts) {
		t.Errorf("incarnations were %v, are %v", counts, now)
	}

	t.Log("a newer revision at the root counts, and the conflict is reported")
	w.root.apply(shopOf(2, "2"))
	eventually(t, 20*time.Second, "the root's revision is what runs", func() error {
		if n := len(w.pids("shop")); n != 2 {
			return fmt.Errorf("%d instances", n)
		}
		return nil
	})
	v := must[who](t)(whoami(gates[0], shopHost, "/whoami"))
	wantEqual(t, "mark", v.Mark, "2")
	f.noneFailed(t)
	kioskTraffic.noneFailed(t)
	for _, x := range []*tier{w.root, site} {
		eventually(t, 10*time.Second, x.name+" shows the conflict", func() error {
			text := x.ok("status")
			if !strings.Contains(text, "gave way to the root") {
				return fmt.Errorf("%s", text)
			}
			return nil
		})
	}
	left := decode[apiv1.LocalView](t, site.ok("local", "-o", "json"))
	if len(left.Conflicts) != 1 || len(left.Changes) != 1 || left.Conflicts[0].By == "" {
		t.Fatalf("%+v", left)
	}
	site.ok("local", "ack", left.Conflicts[0].ID)
	site.ok("delete", "application/kiosk", "--local", "--timeout", "40s")
	eventually(t, 10*time.Second, "nothing of it is left at the root", func() error {
		v := must[apiv1.LocalView](t)(w.root.client().LocalChanges.List(context.Background()))
		if len(v.Changes)+len(v.Conflicts) > 0 {
			return fmt.Errorf("%+v", v)
		}
		return nil
	})
}

// away waits until the cluster knows that its root is.
func (x *tier) away() {
	x.w.t.Helper()
	c := x.client()
	eventually(x.w.t, 15*time.Second, x.name+" knows that its root is away", func() error {
		s, err := c.System.Status(context.Background())
		if err == nil && s.Upstream == "connected" {
			err = fmt.Errorf("it says %s", s.Upstream)
		}
		return err
	})
}

// losesWorker kills a whole worker, waits until the site has replaced what ran
// there, and starts it again.
func (w *world) losesWorker(t *testing.T, site *tier, name string) {
	x := w.worker[name]
	killAll(t, x.dir)
	removeGroups(t, x.dir)
	eventually(t, 30*time.Second, "all is replaced", func() error {
		n := 0
		for id := range runningIn(t, w.dir) {
			if strings.HasPrefix(id, "shop.") || strings.HasPrefix(id, "kiosk.") {
				n++
			}
		}
		return differs("instances", n, 6)
	})
	site.holds("shop", 15*time.Second)
	site.holds("kiosk", 15*time.Second)
	x.start()
	eventually(t, 20*time.Second, "the worker is back", func() error {
		for _, v := range must[[]rpc.WorkerView](t)(site.client().Workers.List(context.Background())) {
			if v.Name == name && v.Status == "ready" {
				return nil
			}
		}
		return fmt.Errorf("it is not ready")
	})
	// Its disk has the instances of before: it may start them before it is told that
	// they are elsewhere.
	eventually(t, 30*time.Second, "nothing runs twice", func() error {
		count := map[string]int{}
		for _, p := range processesOf(w.dir) {
			if id := p.env["VERGE_INSTANCE"]; id != "" && strings.HasSuffix(p.args[0], "testprogram") {
				count[id]++
			}
		}
		for id, n := range count {
			if n > 1 {
				return fmt.Errorf("%s runs %d times", id, n)
			}
		}
		return differs("instances", len(count), 6)
	})
	site.holds("shop", 15*time.Second)
	site.holds("kiosk", 15*time.Second)
}

// everything that runs of the two applications, by instance.
func everything(w *world) map[string]int {
	out := w.pids("shop")
	maps.Copy(out, w.pids("kiosk"))
	return out
}

// incarnations of what the tier knows, by instance.
func incarnations(x *tier) map[string]string {
	out := map[string]string{}
	for _, app := range []string{"shop", "kiosk"} {
		for id, i := range x.instances(app) {
			out[id] = fmt.Sprintf("incarnation %d, %d restarts", i.Incarnation, i.Restarts)
		}
	}
	return out
}
