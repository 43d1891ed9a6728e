package backend

import (
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/controller"
	"github.com/verge-edge/verge/internal/cluster/edits"
	"github.com/verge-edge/verge/internal/cluster/localedit"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/uplink"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/objects"
	"github.com/verge-edge/verge/internal/people"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/rest/resttest"
	"github.com/verge-edge/verge/internal/rest/server"
	"github.com/verge-edge/verge/internal/wire"
)

// served is cluster xsite on an in-memory store behind its real interface, with an
// application and a worker, and its administrator's context.
func served(t *testing.T) (b *Backend, admin client.Context) {
	t.Helper()
	ctx, store := t.Context(), bustest.NewMemStore()
	c := clustertest.NewCore(t, store)
	c.ClusterName, c.M.Name = "xsite", "xsite"
	shelf, err := objects.Open(t.Context(),
		objects.Options{Store: c.RecordStore, Blobs: bustest.NewMemBlobs(), Site: c.ClusterName})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(shelf.Close)
	b = &Backend{
		ObjectStore: shelf,
		Core:        c, Clock: pki.OpenClock(t.TempDir()), Ledger: &enroll.Ledger{Store: store},
		Book: &people.Book{Store: store, Now: time.Now, Site: "xsite"}, Log: &people.Log{Store: store, Now: time.Now},
	}
	c.Logger = slog.New(slog.DiscardHandler)
	data, err := json.Marshal(wire.Share{
		V: wire.Version, App: "xapp", Namespace: "xspace", Service: "web", Revision: 1, Min: 1, Max: 1,
		Ordinals: []wire.Span{{To: 1}},
		Spec: &api.Service{Runtime: "process", Command: []string{"x"}, Scheduler: "rom", Spread: "soft",
			Resources: api.Resources{CPU: 100}},
	})
	if err != nil {
		t.Fatal(err)
	}
	far, err := json.Marshal(wire.Route{V: wire.Version, App: "xfar", Namespace: "xspace", Service: "web",
		Ports: []api.Port{{Name: "http", Ingress: &api.Ingress{Host: "far.example"}}}})
	if err != nil {
		t.Fatal(err)
	}
	changes := []wire.Change{{Key: "share.xapp.web", Value: data}, {Key: "route.xfar.web", Value: far}}
	if err := uplink.FromRoot(c).Take(ctx, true, changes, wire.Rev{Inc: "root", N: 1}, nil); err != nil {
		t.Fatal(err)
	}
	c.M.Workers["xmachine"] = state.NewWorker(state.WorkerRecord{Info: wire.WorkerInfo{Name: "xmachine"}}, time.Now())
	if _, err := controller.Pass(ctx, c, time.Now(), true); err != nil {
		t.Fatal(err)
	}
	c.EventRing.Note(time.Now(), event.WorkerBack, "xsite/xmachine", "xtext")
	c.EventRing.Note(time.Now(), event.InstanceReady, "xapp.web.0", "xtext")
	_, _, admin = resttest.Serve(t, b, func(o *server.Options) { o.Site, o.Referrals = "xsite", Referrals })
	return b, admin
}

func tokenOf(t *testing.T, b *Backend, name string, r wire.Roles) string {
	t.Helper()
	u, err := b.CreateUser(t.Context(), apiv1.UserRequest{Name: name, Roles: r})
	if err != nil {
		t.Fatal(err)
	}
	return u.Token
}

var there = resttest.Place{App: "xapp", Namespace: "xspace", Cluster: "xsite", Worker: "xmachine"}

func TestOutsidersLearnNothing(t *testing.T) {
	b, admin := served(t)
	tokens := []string{
		tokenOf(t, b, "developer", wire.Roles{Namespaces: map[string]string{"garden": "developer",
			"default": "developer"}}),
		tokenOf(t, b, "nobody", wire.Roles{}),
	}
	// That this is cluster xsite is no secret: its certificate says so. Its own name
	// is therefore asked for in both.
	there, nowhere := there, resttest.Place{App: "nothing", Namespace: "nowhere", Cluster: "noplace", Worker: "noone"}
	there.Cluster = "noplace"
	resttest.OutsidersLearnNothing(t, admin, tokens, there, nowhere, "xtext", "xfar")
	if len(localedit.Table.Rows(b.M.DB)) != 0 || b.M.Shares["xapp.web"] == nil {
		t.Error("something was changed")
	}
}

// The site's operators run it; its developers and viewers are those of its own
// interface, whatever they may at the root.
func TestRolesAtTheSite(t *testing.T) {
	b, admin := served(t)
	operator := tokenOf(t, b, "op", wire.Roles{Clusters: map[string]string{"xsite": "operator"}})
	dev := tokenOf(t, b, "dev", wire.Roles{Namespaces: map[string]string{"xspace": "developer"}})
	viewer := tokenOf(t, b, "viewer", wire.Roles{Namespaces: map[string]string{"xspace": "viewer"}})
	client := resttest.Bearers(t, admin)
	requests := map[string]resttest.Request{}
	for _, r := range resttest.Requests(t, resttest.OpenAPI(t, admin), there.Fill) {
		requests[r.Operation] = r
	}
	worker := requests["create-token"]
	worker.Body = []byte(`{"kind":"worker"}`)
	api := worker
	api.Body = []byte(`{"kind":"api"}`)
	for _, c := range []struct {
		who         string
		request     resttest.Request
		status      int
		has, hasNot string
	}{
		{operator, requests["list-workers"], 200, "xmachine", ""},
		{operator, requests["get-application"], 200, "xapp", ""},
		{operator, requests["cordon-worker"], 200, "", ""},
		{operator, requests["list-events"], 200, "xtext", ""},
		{operator, requests["read-audit-log"], 200, "cordon-worker", ""},
		{operator, requests["create-user"], 403, "an administrator", ""},
		{operator, requests["list-users"], 403, "an administrator", ""},
		{operator, api, 403, "an administrator", ""},
		{dev, worker, 404, "no-such-cluster", ""},
		{dev, requests["get-application"], 200, "xapp", ""},
		{dev, requests["list-workers"], 200, "[]", "xmachine"},
		{dev, requests["get-status"], 200, "xapp", "xmachine"},
		{dev, requests["cordon-worker"], 404, "no-such-worker", ""},
		{viewer, requests["get-application"], 200, "xapp", ""},
		{viewer, requests["top-instances"], 200, "xapp.web.0", ""},
		{viewer, requests["top-workers"], 200, "[]", "xmachine"},
		{operator, requests["top-workers"], 200, "xmachine", ""},
		{operator, requests["top-clusters"], 200, "xsite", ""},
		{viewer, requests["scale-service"], 403, "developer of namespace xspace or operator of cluster xsite", ""},
		{viewer, requests["delete-application"], 403, "operator of cluster xsite", ""},
		{viewer, requests["apply"], 403, "developer of namespace xspace", ""},
	} {
		status, body := c.request.Do(t, client, admin.Server, c.who)
		if status != c.status || !strings.Contains(body, c.has) ||
			(c.hasNot != "" && strings.Contains(body, c.hasNot)) {
			t.Errorf("%s: %d %s\nwant %d with %q, without %q", c.request.Operation, status, body, c.status, c.has,
				c.hasNot)
		}
	}
	// What an operator may here is not for operators of another cluster.
	if _, err := b.CreateUser(t.Context(),
		apiv1.UserRequest{Name: "x", Roles: wire.Roles{Clusters: map[string]string{"fog": "operator"}}}); err == nil {
		t.Error("an operator of another cluster was made")
	}
}

// Whose name an application has, and whose host, only those hear who may see it:
// also where it does not run here.
func TestNamesAtTheSite(t *testing.T) {
	b, _ := served(t)
	who := access.Who{Name: "user/dev", Namespaces: map[string]access.Role{"garden": access.Developer}}
	descriptor := func(app, more string) []byte {
		return []byte("application: " + app + "\nnamespace: garden\nservices:\n  web:\n    command: [x]\n" + more)
	}
	for _, c := range []struct{ app, more, code string }{
		{"xapp", "", "name-taken"}, {"xfar", "", "name-taken"},
		{"mine", "    ports: [{name: http, ingress: {host: far.example}}]\n", "host-taken"},
	} {
		for _, dry := range []bool{true, false} {
			_, err := edits.ApplyLocal(access.With(t.Context(), who), b.Core, descriptor(c.app, c.more), dry,
				time.Now())
			var p *wire.Problem
			if !errors.As(err, &p) || p.Code != c.code || strings.Contains(err.Error(), "xspace") ||
				(c.code == "host-taken" && strings.Contains(err.Error(), "xfar")) {
				t.Errorf("%s: %v, want %s", c.app, err, c.code)
			}
			if _, err := edits.ApplyLocal(access.With(t.Context(), access.Who{Admin: true}), b.Core,
				descriptor(c.app, c.more),
				dry, time.Now()); err == nil ||
				!strings.Contains(err.Error(), map[bool]string{true: "xspace", false: "xfar"}[c.code == "name-taken"]) {
				t.Errorf("%s, by an administrator: %v", c.app, err)
			}
		}
	}
	if len(localedit.Table.Rows(b.M.DB)) != 0 {
		t.Error("something was changed")
	}
}
