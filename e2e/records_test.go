package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/busserver"
)

// damage puts a value that cannot be read under keys of the store of a tier that has ended.
func (x *tier) damage(keys ...string) {
	x.w.t.Helper()
	err := busserver.Edit(x.w.t.Context(), filepath.Join(x.dir, "bus"), slog.New(slog.DiscardHandler), func(s bus.Store) error {
		var ops []bus.Op
		for _, key := range keys {
			ops = append(ops, bus.Put(key, []byte(`{"v":1,"what":`)))
		}
		_, err := s.Commit(x.w.t.Context(), ops...)
		return err
	})
	if err != nil {
		x.w.t.Fatal(err)
	}
}

// drop drops a record of a tier that has ended by the command.
func (x *tier) drop(key string, more ...string) {
	x.w.t.Helper()
	args := append([]string{"records", "drop", key, "--data-dir", x.dir}, more...)
	if r := verge(x.w.t, "", args...); r.code != 0 || !strings.Contains(r.out, filepath.Join(x.dir, "dropped")) {
		x.w.t.Fatalf("%v: exit %d\n%s%s", args, r.code, r.out, r.err)
	}
}

// TestRecordsAreDropped damages records without which a root and a cluster decide nothing, or
// do not start, and drops them under traffic: what runs goes on, is known again, and can be
// changed.
func TestRecordsAreDropped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, "edge")
	site := w.cluster["edge"]
	w.root.apply(shopOf(2, "1"))
	w.root.apply(kioskOf(2))
	w.root.ok("user", "create", "bob", "--developer", "default")
	pids := everything(w)
	wantEqual(t, "instances", len(pids), 4)
	worker := site.instances("shop")["shop.web.0"].Worker
	gates := []string{w.worker["edge-1"].gateway, w.worker["edge-2"].gateway}
	f, g := sendTraffic(t, shopHost, gates...), sendTraffic(t, kiosk, gates...)
	untouched := func() {
		t.Helper()
		throughout(t, 3*time.Second, "nothing is touched", func() error {
			if now := everything(w); !maps.Equal(now, pids) {
				return fmt.Errorf("processes were %v, are %v", pids, now)
			}
			return nil
		})
	}
	ended := func(x *tier) {
		t.Helper()
		eventually(t, 30*time.Second, x.name+" has asked those around it", func() error {
			v, err := x.client().System.Recovery(context.Background())
			if err == nil && !v.Restored.IsZero() {
				err = fmt.Errorf("%+v", v)
			}
			return err
		})
	}

	t.Log("the root: an application, an instance and a user")
	if r := verge(t, "", "records", "ls", "--data-dir", w.root.dir); r.code != 1 || !strings.Contains(r.err, "stop the root first") {
		t.Errorf("of a root that runs: exit %d\n%s%s", r.code, r.out, r.err)
	}
	w.root.kill()
	w.root.damage("app.shop", "inst.kiosk.web.1", "user.bob")
	w.root.start()
	w.root.answers()
	if text := w.root.ok("status"); !strings.Contains(text, "app.shop") || !strings.Contains(text, "verge records ls") {
		t.Errorf("the status says\n%s", text)
	}
	if text := w.root.ok("user", "ls"); !strings.Contains(text, "bob") || !strings.Contains(text, "cannot be read") {
		t.Errorf("users are\n%s", text)
	}
	untouched()
	w.root.kill()
	if r := verge(t, "", "records", "ls", "--data-dir", w.root.dir, "-o", "name"); r.out != "record/app.shop\nrecord/inst.kiosk.web.1\nrecord/user.bob\n" {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
	}
	file := filepath.Join(w.dir, "shop.json")
	if r := verge(t, "", "records", "show", "app.shop", "--data-dir", w.root.dir, "--to", file); r.code != 0 || string(must[[]byte](t)(os.ReadFile(file))) != `{"v":1,"what":` {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
	}
	w.root.drop("app.shop", "--confirm", "app.shop")
	w.root.drop("inst.kiosk.web.1", "--confirm", "inst.kiosk.web.1")
	w.root.drop("user.bob")
	w.root.start()
	w.root.answers()
	ended(w.root)
	w.root.holds("shop", 15*time.Second)
	w.root.holds("kiosk", 15*time.Second)
	untouched()
	if text := w.root.ok("audit"); strings.Count(text, "drop-record") != 3 {
		t.Errorf("the audit log says\n%s", text)
	}
	w.root.ok("user", "create", "bob", "--developer", "default")

	t.Log("the cluster: a share, an instance and an order")
	site.kill()
	site.damage("share.kiosk.web", "inst.shop.web.0", "to."+worker+".shop.web.0", "gone.00")
	site.start()
	if code := site.wait(); code != 1 || !strings.Contains(site.text(), "gone.00") || strings.Contains(site.text(), "goroutine ") {
		t.Errorf("exit %d\n%s", code, site.text())
	}
	if r := verge(t, "", "records", "drop", "gone.00", "--data-dir", site.dir, "--confirm", "gone.00"); r.code != 1 || !strings.Contains(r.err, "--security") {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
	}
	site.drop("gone.00", "--confirm", "gone.00", "--security")
	site.drop("share.kiosk.web", "--confirm", "share.kiosk.web")
	site.drop("inst.shop.web.0", "--confirm", "inst.shop.web.0")
	site.drop("to."+worker+".shop.web.0", "--confirm", "to."+worker+".shop.web.0")
	site.start()
	site.answers()
	ended(site)
	w.allReady()
	w.root.holds("shop", 15*time.Second)
	w.root.holds("kiosk", 15*time.Second)
	untouched()
	f.noneFailed(t)
	g.noneFailed(t)

	t.Log("all of it can be changed")
	w.root.apply(shopOf(3, "2"))
	w.root.apply(kioskOf(1))
	wantEqual(t, "instances", len(everything(w)), 4)
	if v := must[apiv1.AppView](t)(w.root.client().Applications.Get(context.Background(), "shop")); v.Revision < 2 {
		t.Errorf("shop is at revision %d", v.Revision)
	}
}
