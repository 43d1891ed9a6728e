package edits_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/edits"
	"github.com/verge-edge/verge/internal/cluster/localedit"
	"github.com/verge-edge/verge/internal/cluster/uplink"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

func TestALocalChangeCanBeTakenBack(t *testing.T) {
	s := clustertest.NewSite(t)
	s.Give(clustertest.Web(2, "a"), 2)
	s.ApplyLocal(clustertest.Web(3, "mine"))
	if err := edits.DropLocal(t.Context(), s.Core, "app", "web", s.Now); err != nil {
		t.Fatal(err)
	}
	s.Settle()
	s.WantRunning("taken back", map[string]string{"app.web.0": "a", "app.web.1": "a"})
	if err := edits.DropLocal(t.Context(), s.Core, "app", "", s.Now); err == nil {
		t.Error("it was taken back twice")
	}
	s.ApplyLocal([]byte("application: own\nservices: {job: {command: [x]}}\n"))
	s.WantRunning("another one", map[string]string{"app.web.0": "a", "app.web.1": "a", "own.job.100000": ""})
	if err := edits.DropLocal(t.Context(), s.Core, "own", "", s.Now); err != nil {
		t.Fatal(err)
	}
	s.Settle()
	s.WantRunning("taken back", map[string]string{"app.web.0": "a", "app.web.1": "a"})
}

// An apply is the whole of an application: what the file does not have goes.
func TestALocalApplyIsTheWhole(t *testing.T) {
	s := clustertest.NewSite(t)
	s.Give([]byte("application: app\nservices: {a: {command: [x]}, b: {command: [x]}}\n"), 1)
	s.WantRunning("given", map[string]string{"app.a.0": "", "app.b.0": ""})
	s.ApplyLocal([]byte("application: app\nservices: {a: {command: [x]}, c: {command: [x]}}\n"))
	s.WantRunning("applied", map[string]string{"app.a.0": "", "app.c.100000": ""})
	v := localedit.Views(s.Core.M, "app").Changes
	if len(v) != 2 || v[0].Change != "deleted" || v[1].Change != "created, 1 instance" {
		t.Errorf("%+v", v)
	}
	dry, err := edits.ApplyLocal(t.Context(), s.Core, []byte("application: app\nservices: {a: {command: [y]}}\n"), true,
		s.Now)
	if err != nil || dry.Change != "updated" {
		t.Errorf("%+v, %v", dry, err)
	}
	s.Settle()
	s.WantRunning("after a dry run", map[string]string{"app.a.0": "", "app.c.100000": ""})
}

func TestEditsThatAreRefused(t *testing.T) {
	s := clustertest.NewSite(t)
	s.Give(clustertest.Web(1, "a"), 1)
	code := func(err error) string {
		var p *wire.Problem
		if !errors.As(err, &p) || p.Remedy == "" {
			return fmt.Sprintf("no problem with a remedy: %v", err)
		}
		return p.Code
	}
	check := func(want string, err error) {
		t.Helper()
		if got := code(err); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	_, err := edits.ApplyLocal(t.Context(), s.Core,
		[]byte("application: other\nservices: {web: {command: [x], ports: [{name: http, ingress: {host: web.test}}]}}"),
		false, s.Now)
	check("host-taken", err)
	_, err = edits.ApplyLocal(t.Context(), s.Core,
		[]byte("application: other\nservices: {web: {runtime: container, image: "+
			"x, security: {add: SYS_ADMIN}}}"), false, s.Now)
	check("over-rights", err)
	_, err = edits.ApplyLocal(t.Context(), s.Core, []byte("services: {}"), false, s.Now)
	check("invalid-descriptor", err)
	_, err = edits.ScaleLocal(t.Context(), s.Core, "app", "none", 2, s.Now)
	check("no-such-service", err)
	_, err = edits.ScaleLocal(t.Context(), s.Core, "none", "web", 2, s.Now)
	check("no-such-application", err)
	_, err = edits.ScaleLocal(t.Context(), s.Core, "app", "web", api.MaxReplicas+1, s.Now)
	check("cannot-scale", err)
	s.Store.FailWrites(errors.New("disk full"))
	_, err = edits.ScaleLocal(t.Context(), s.Core, "app", "web", 2, s.Now)
	check("not-stored", err)
	s.Store.FailWrites(nil)
	s.Settle()
	s.WantRunning("nothing of it counts", map[string]string{"app.web.0": "a"})
	// A connected root is the place, unless it is meant for here.
	uplink.Memory(s.Core.M).UpErr = nil
	_, err = edits.ScaleLocal(t.Context(), s.Core, "app", "web", 2, s.Now)
	check("root-connected", err)
	check("root-connected", edits.DeleteLocal(t.Context(), s.Core, "app", s.Now))
	if _, err = edits.ScaleLocal(rest.WithLocal(t.Context(), true), s.Core, "app", "web", 2, s.Now); err != nil {
		t.Error(err)
	}
}

func TestARestartAtTheSite(t *testing.T) {
	s := clustertest.NewSite(t)
	s.Give(clustertest.Web(2, "a"), 2)
	restart := func(q apiv1.RestartRequest, want int) {
		t.Helper()
		before := s.Starts()
		r, err := edits.RestartLocal(t.Context(), s.Core, "app", q, s.Now)
		if err != nil || len(r.Instances) != want {
			t.Fatalf("%+v, %v, want %d", r, err, want)
		}
		s.Reopen() // the wish is durable
		s.Settle()
		s.Settle()
		if n := s.Starts() - before; n != want {
			t.Fatalf("%d starts, want %d\n%s", n, want, s.Dump())
		}
		for _, id := range r.Instances {
			if i := s.Core.M.Insts[id]; i.Restarted != r.N || !i.Ready {
				t.Errorf("%s: restarted %d, ready %v, want %d", id, i.Restarted, i.Ready, r.N)
			}
		}
	}
	one := 1
	restart(apiv1.RestartRequest{Service: "web", Ordinal: &one}, 1)
	restart(apiv1.RestartRequest{}, 2)
	s.ScaleLocal(3)
	restart(apiv1.RestartRequest{Service: "web"}, 3)
	if len(localedit.Table.Rows(s.Core.M.DB)) != 1 {
		t.Errorf("a restart is called a change: %v", localedit.Table.Rows(s.Core.M.DB))
	}
	// The root is back, and knows nothing of it: nothing is started once more.
	before := s.Starts()
	s.Give(clustertest.Web(2, "a"), 2)
	if n := s.Starts() - before; n != 0 {
		t.Errorf("%d starts after the root came back", n)
	}
	s.Give(nil, 0)
	if len(localedit.AgainTable.Rows(s.Core.M.DB)) != 0 {
		t.Errorf("marks of what is gone are kept: %v", localedit.AgainTable.Rows(s.Core.M.DB))
	}
	for want, q := range map[string]apiv1.RestartRequest{
		"no-such-application": {}, "invalid-request": {Ordinal: &one},
	} {
		var p *wire.Problem
		if _, err := edits.RestartLocal(t.Context(), s.Core, "app", q, s.Now); !errors.As(err, &p) || p.Code != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
