package backend_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/rest/resttest"
	"github.com/verge-edge/verge/internal/rest/server"
	"github.com/verge-edge/verge/internal/root/backend"
	"github.com/verge-edge/verge/internal/root/controller"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// served is a root on an in-memory store behind its real interface, with an
// application in a cluster, and its administrator's context.
func served(t *testing.T) (b backend.Backend, admin client.Context) {
	t.Helper()
	store := bustest.NewMemStore()
	b = roottest.NewBackend(t, store)
	b.Logger = slog.New(slog.DiscardHandler)
	b.Clock = pki.OpenClock(t.TempDir())
	b.Ledger = &enroll.Ledger{Store: store}
	if _, err := b.CreateNamespace(t.Context(), apiv1.NamespaceRequest{Name: "xspace"}); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	b.M.Clusters["xsite"] = state.NewCluster(state.ClusterRecord{V: 1, Name: "xsite", Joined: now}, now)
	b.M.Clusters["xsite"].Aggregate = &wire.Aggregate{Workers: 1, Details: true}
	roottest.MustApply(t, b, roottest.App("xspace", "xapp", 1, ""))
	if _, err := controller.Pass(t.Context(), b.Core, now, true); err != nil {
		t.Fatal(err)
	}
	i := *b.M.Insts["xapp.web.0"]
	i.Cluster = "xsite"
	b.M.Insts[i.ID] = &i
	b.EventRing.Add(event.InstanceReady.On("xapp.web.0", "xtext").By(now, "cluster/xsite"))
	b.EventRing.Note(now, event.ClusterBack, "xsite", "xtext")
	b.EventRing.Add(event.WorkerBack.On("xsite/xmachine", "xtext").By(now, "cluster/xsite"))
	_, _, admin = resttest.Serve(t, b, func(o *server.Options) { o.Referrals = backend.Referrals })
	return b, admin
}

func token(t *testing.T, b backend.Backend, name string, r wire.Roles) string {
	t.Helper()
	u, err := b.CreateUser(t.Context(), apiv1.UserRequest{Name: name, Roles: r})
	if err != nil {
		t.Fatal(err)
	}
	return u.Token
}

func roles(of string, names ...string) map[string]string {
	m := map[string]string{}
	for _, n := range names {
		m[n] = of
	}
	return m
}

var (
	there   = resttest.Place{App: "xapp", Namespace: "xspace", Cluster: "xsite", Worker: "xmachine"}
	nowhere = resttest.Place{App: "nothing", Namespace: "nowhere", Cluster: "noplace", Worker: "noone"}
)

func TestOutsidersLearnNothing(t *testing.T) {
	b, admin := served(t)
	if _, err := b.CreateNamespace(t.Context(), apiv1.NamespaceRequest{Name: "garden"}); err != nil {
		t.Fatal(err)
	}
	tokens := []string{
		token(t, b, "developer", wire.Roles{Namespaces: roles("developer", "garden", "default")}),
		token(t, b, "operator", wire.Roles{Clusters: roles("operator", "garden")}),
		token(t, b, "nobody", wire.Roles{}),
	}
	resttest.OutsidersLearnNothing(t, admin, tokens, there, nowhere, "xtext")
	if app := b.M.Apps["xapp"]; app == nil || app.Revision != 1 || !app.Deleting.IsZero() || len(b.M.Apps) != 1 {
		t.Errorf("something was changed: %+v", b.M.Apps)
	}
}

// What each role sees at a real root, by the real interface.
func TestRolesAtTheRoot(t *testing.T) {
	b, admin := served(t)
	dev := token(t, b, "dev", wire.Roles{Namespaces: roles("developer", "xspace")})
	viewer := token(t, b, "viewer", wire.Roles{Namespaces: roles("viewer", "xspace")})
	operator := token(t, b, "op", wire.Roles{Clusters: roles("operator", "xsite")})
	boss := token(t, b, "boss", wire.Roles{Admin: true})
	client := resttest.Bearers(t, admin)
	requests := map[string]resttest.Request{}
	for _, r := range resttest.Requests(t, resttest.OpenAPI(t, admin), there.Fill) {
		requests[r.Operation] = r
	}
	for _, c := range []struct {
		who, op string
		status  int
		has     string
		hasNot  string
	}{
		{viewer, "get-application", 200, "xapp", ""},
		{viewer, "get-instance", 200, "xapp.web.0", ""},
		{viewer, "explain-instance", 200, "xapp.web.0", ""},
		{viewer, "list-namespaces", 200, "xspace", "default"},
		{viewer, "get-namespace", 200, `"instances":1`, ""},
		{viewer, "get-status", 200, "application xapp", "cluster xsite"},
		{viewer, "list-events", 200, "application/xapp", "cluster/xsite\",\"what"},
		{viewer, "list-clusters", 200, `[]`, "xsite"},
		{viewer, "top-instances", 200, "xapp.web.0", ""},
		{viewer, "top-clusters", 200, `[]`, "xsite"},
		{operator, "top-clusters", 200, "xsite", ""},
		{viewer, "delete-application", 403, "developer of namespace xspace", ""},
		{viewer, "scale-service", 403, "developer of namespace xspace", ""},
		{viewer, "apply", 403, "developer of namespace xspace", ""},
		{viewer, "set-quota", 403, "needs an administrator", ""},
		{dev, "set-standing", 403, "needs an administrator", ""},
		{viewer, "read-audit-log", 403, "an administrator", ""},
		{operator, "list-clusters", 200, "xsite", ""},
		{operator, "get-instance", 200, "xapp.web.0", ""},
		{operator, "list-instances", 200, "xapp.web.0", ""},
		{operator, "explain-instance", 200, "compares clusters", "xtext"},
		{operator, "get-status", 200, "xsite", "application xapp"},
		{operator, "list-events", 200, "instance/xapp.web.0", "application/xapp"},
		{operator, "list-applications", 200, `[]`, "xapp"},
		{operator, "delete-application", 404, "no-such-application", ""},
		{operator, "apply", 404, "no-such-namespace", ""},
		{operator, "restart-application", 404, "no-such-application", ""},
		{operator, "create-token", 403, "an administrator", ""},
		{boss, "list-users", 200, "viewer", ""},
		{boss, "read-audit-log", 200, "user/viewer", ""},
		{dev, "who-am-i", 200, `"xspace":"developer"`, ""},
		{dev, "apply", 200, "xapp", ""},
		{dev, "scale-service", 200, "xapp", ""},
		{dev, "delete-application", 200, "", ""},
	} {
		r, ok := requests[c.op]
		if !ok {
			t.Fatalf("no operation %s", c.op)
		}
		status, body := r.Do(t, client, admin.Server, c.who)
		if status != c.status || !strings.Contains(body, c.has) ||
			(c.hasNot != "" && strings.Contains(body, c.hasNot)) {
			t.Errorf("%s: %d %s\nwant %d with %q, without %q", c.op, status, body, c.status, c.has, c.hasNot)
		}
	}
	if b.M.Apps["xapp"].Deleting.IsZero() {
		t.Error("the developer's delete did nothing")
	}
}

// What is taken away is gone at once: for the next request, and for what is open.
func TestRevocationIsAtOnce(t *testing.T) {
	b, admin := served(t)
	for _, c := range []struct {
		what  string
		take  func(name string) error
		known bool // afterwards
	}{
		{"role", func(name string) error {
			_, err := b.Revoke(t.Context(), name, wire.Roles{Namespaces: roles("developer", "xspace", "gone")})
			return err
		}, true},
		{"namespace", func(string) error { return b.RemoveNamespace(t.Context(), "gone") }, true},
		{"token", func(name string) error {
			_, err := b.RotateToken(t.Context(), name, 0)
			return err
		}, false},
		{"user", func(name string) error { return b.RemoveUser(t.Context(), name) }, false},
	} {
		if _, err := b.CreateNamespace(t.Context(), apiv1.NamespaceRequest{Name: "gone"}); err != nil &&
			roottest.Code(err) != "name-taken" {
			t.Fatal(err)
		}
		text := token(t, b, "bob-"+c.what, wire.Roles{Namespaces: roles("developer", "xspace", "gone")})
		p, err := b.Authenticate(t.Context(), text)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.take("bob-" + c.what); err != nil {
			t.Fatal(err)
		}
		select {
		case <-p.Ended:
		default:
			t.Errorf("%s: what is open goes on", c.what)
		}
		next, err := b.Authenticate(t.Context(), text)
		if (err == nil) != c.known || next.Namespaces["gone"] != "" {
			t.Errorf("%s: %+v, %v", c.what, next, err)
		}
	}
	// The same through the interface, with a request that waits or is about to.
	text := token(t, b, "bob", wire.Roles{Namespaces: roles("developer", "xspace")})
	c, err := client.New(client.Context{Name: "bob", Server: admin.Server, CA: admin.CA, Token: text})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	page, err := c.Events.After(t.Context(), 0, 0)
	if err != nil || len(page.Events) == 0 {
		t.Fatalf("%+v, %v", page, err)
	}
	result := make(chan error, 1)
	go func() {
		_, err := c.Events.After(t.Context(), page.After+1_000, 30*time.Second)
		for err == nil { // it may have been asked for what was there
			_, err = c.Events.After(t.Context(), page.After+1_000, 30*time.Second)
		}
		result <- err
	}()
	if err := b.RemoveUser(t.Context(), "bob"); err != nil {
		t.Fatal(err)
	}
	if err := <-result; roottest.Code(err) != "access-ended" && roottest.Code(err) != "bad-token" {
		t.Errorf("got %v", err)
	}
}

func TestGrantsAreOfNamespacesThatAreThere(t *testing.T) {
	b := roottest.NewBackend(t, bustest.NewMemStore())
	r := wire.Roles{Namespaces: roles("viewer", "shop")}
	if _, err := b.CreateUser(t.Context(), apiv1.UserRequest{Name: "bob",
		Roles: r}); roottest.Code(err) != "no-such-namespace" {
		t.Errorf("%v", err)
	}
	token(t, b, "bob", wire.Roles{Namespaces: roles("viewer", "default")})
	if _, err := b.Grant(t.Context(), "bob", r); roottest.Code(err) != "no-such-namespace" {
		t.Errorf("%v", err)
	}
	// A namespace that is made again under the name of an old one has nobody in it.
	if _, err := b.CreateNamespace(t.Context(), apiv1.NamespaceRequest{Name: "shop"}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Grant(t.Context(), "bob", r); err != nil {
		t.Fatal(err)
	}
	if err := b.RemoveNamespace(t.Context(), "shop"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.CreateNamespace(t.Context(), apiv1.NamespaceRequest{Name: "shop"}); err != nil {
		t.Fatal(err)
	}
	if u, err := b.User(t.Context(), "bob"); err != nil || u.Namespaces["shop"] != "" || u.Namespaces["default"] == "" {
		t.Errorf("%+v, %v", u, err)
	}
}

// A program's token is its maker's, an administrator's, and says who that was; one
// that another root made is nobody's here.
func TestWhoseTokens(t *testing.T) {
	b, _ := served(t)
	other, _ := served(t)
	ann := access.With(t.Context(), access.Who{Name: "admin/ann", Admin: true})
	api, err := b.CreateToken(ann, apiv1.TokenRequest{Kind: "api"})
	if err != nil {
		t.Fatal(err)
	}
	users := token(t, b, "bob", wire.Roles{Admin: true})
	for text, want := range map[string]string{api.Token: "token/", users: "user/bob"} {
		p, err := b.Authenticate(t.Context(), text)
		if err != nil || !p.Admin || !strings.HasPrefix(p.Name, want) || p.Left <= 0 {
			t.Errorf("%+v, %v", p, err)
		}
		if p, err := other.Authenticate(t.Context(), text); roottest.Code(err) != "bad-token" || p.Admin || p.Name != "" {
			t.Errorf("at another root it is %+v, %v", p, err)
		}
	}
	list, err := b.RecordStore.List(t.Context(), "bearer.")
	if err != nil || len(list) != 1 || !strings.Contains(string(list[0].Value), `"by":"admin/ann"`) {
		t.Errorf("%v, %s", err, fmt.Sprint(list))
	}
}

// What happened to an application stays with the namespace that it was in, when it
// is gone and when its name is another's.
func TestEventsStayInTheirNamespace(t *testing.T) {
	b, admin := served(t)
	if _, err := b.CreateNamespace(t.Context(), apiv1.NamespaceRequest{Name: "garden"}); err != nil {
		t.Fatal(err)
	}
	before := token(t, b, "before", wire.Roles{Namespaces: roles("viewer", "xspace")})
	after := token(t, b, "after", wire.Roles{Namespaces: roles("viewer", "garden")})
	delete(b.M.Apps, "xapp")
	b.EventRing.Note(time.Now(), event.ApplicationDeleted, "xapp", "xgone")
	roottest.MustApply(t, b, roottest.App("garden", "xapp", 1, ""))
	client := resttest.Bearers(t, admin)
	read := func(token string) string {
		_, body := resttest.Request{Method: "GET", Path: "/v1/events"}.Do(t, client, admin.Server, token)
		return body
	}
	if body := read(before); !strings.Contains(body, "xgone") ||
		strings.Count(body, `"created`) != 2 { // of xspace and xapp
		t.Errorf("who saw it before sees %s", body)
	}
	if body := read(after); strings.Contains(body, "xgone") || strings.Contains(body, "xtext") ||
		strings.Contains(body, "xspace") || !strings.Contains(body, "application/xapp") {
		t.Errorf("who has its name now sees %s", body)
	}
}
