package namespaces_test

import (
	"strings"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/objects"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/root/backend"
	"github.com/verge-edge/verge/internal/root/clusters"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/wire"
)

// What a site changed by itself counts against the quota when it is told, and ends
// nothing.
func TestChangesAtSitesCountAgainstTheQuota(t *testing.T) {
	c := roottest.NewRunningCore(t)
	shelf, err := objects.Open(t.Context(),
		objects.Options{Store: bustest.NewMemStore(), Blobs: bustest.NewMemBlobs(),
			Quota: func(namespace string) int64 { return backend.ObjectQuota(c, namespace) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(shelf.Close)
	b := backend.Backend{Core: c, ObjectStore: shelf}
	admin := access.With(t.Context(), access.Who{Name: "admin", Admin: true})
	c.M.Namespaces["default"] = &record.Namespace{V: wire.Version, Name: "default",
		Quota: wire.Quota{Instances: 3, CPU: 10}}
	n := uint64(2)
	tell := func(cluster, service string, l *wire.LocalChange) {
		t.Helper()
		ch := wire.Change{Key: wire.ReportedLocal + service, Deleted: true}
		if l != nil {
			ch = wire.Change{Key: wire.ReportedLocal + service, Value: roottest.JSON(t, l)}
		}
		r := wire.Report{V: wire.Version, From: wire.Rev{Inc: cluster, N: n}, To: wire.Rev{Inc: cluster, N: n + 1},
			Changes: []wire.Change{ch}}
		if cluster == "bad" {
			r.From = wire.Rev{}
		} else {
			n++
		}
		clusters.OnReport(t.Context(), c, cluster, r)
	}
	problems := func() string {
		return strings.Join(clusters.QuotaProblems(admin, c), "; ")
	}
	if v, err := b.Namespace(admin, "default"); err != nil || v.Used.Instances != 1 || problems() != "" {
		t.Fatalf("%+v, %v, %s", v, err, problems())
	}
	local := func(app string, replicas int) *wire.LocalChange {
		return &wire.LocalChange{V: wire.Version, App: app, Service: "web", Replicas: replicas,
			Needs: api.Resources{CPU: 2, Memory: 5}}
	}
	tell("good", "app.web", local("app", 5)) // it was given one, which needs 1
	v, err := b.Namespace(admin, "default")
	if err != nil || v.Used.Instances != 5 || v.AtSites.Instances != 4 || v.AtSites.CPU != 9 || v.AtSites.Memory != 24 {
		t.Fatalf("%+v, %v", v, err)
	}
	if text := problems(); !strings.Contains(text, "instances: 3 allowed, 5 used") ||
		!strings.Contains(text, "cluster good") || strings.Contains(text, "cpu") {
		t.Error(text)
	}
	said := false
	for _, e := range c.EventRing.After(t.Context(), 0, 0).Events {
		said = said || e.Subject == "namespace/default" && strings.Contains(e.What, "over its quota")
	}
	if !said {
		t.Error("no event")
	}
	if _, err := b.Apply(admin, []byte("application: more\nservices: {web: {command: [x]}}\n"),
		false); roottest.Code(err) != "over-quota" {
		t.Errorf("%v", err)
	}
	if _, err := b.Plan(admin, []byte("application: more\nservices: {web: {command: [x]}}\n")); roottest.Code(err) != "over-quota" {
		t.Errorf("%v", err)
	}
	roottest.Pass(t, c)
	if c.M.Insts["app.web.0"] == nil || c.M.Insts["app.web.0"].Draining {
		t.Error("something was ended")
	}
	// Who may not see the namespace hears nothing of it.
	if list := clusters.QuotaProblems(access.With(t.Context(), access.Who{Name: "user/bob"}), c); len(list) > 0 {
		t.Errorf("%v", list)
	}
	// Less than what was given is no use given back.
	with := local("app", 2)
	with.Devices = []api.DeviceNeed{{Type: "camera", Count: 2}, {Type: "camera", Count: 1 << 40},
		{Type: "No!", Count: 1}, {Type: "mic", Count: -1}}
	tell("good", "app.web", with)
	if v, _ := b.Namespace(admin, "default"); len(v.AtSites.Devices) != 1 || v.AtSites.Devices["camera"] != 4 {
		t.Errorf("%+v", v.AtSites)
	}
	tell("good", "app.web", local("app", 0))
	if v, _ := b.Namespace(admin, "default"); v.Used.Instances != 1 || !v.AtSites.IsZero() || problems() != "" {
		t.Errorf("%+v, %s", v, problems())
	}
	// What only a site knows is shown, and keeps nobody from growing.
	tell("bad", "own.web", local("own", 1<<40))
	if v, _ := b.Namespace(admin, "default"); v.AtSites.Instances != api.MaxReplicas ||
		!strings.Contains(problems(), "cluster bad") {
		t.Errorf("%+v, %s", v, problems())
	}
	if _, err := b.Apply(admin, []byte("application: more\nservices: {web: {command: [x], resources: {cpu: 1m}}}\n"),
		false); err != nil {
		t.Errorf("%v", err)
	}
	tell("good", "app.web", nil)
	if len(c.M.Clusters["good"].Locals) != 0 {
		t.Error("it is still there")
	}
}
