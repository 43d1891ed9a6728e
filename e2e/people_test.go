package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
)

// TestPeople: users, namespaces and the audit log by the command line, at a root
// and at a cluster, and what another root makes of all that.
func TestPeople(t *testing.T) {
	t.Parallel() // it waits much more than it computes
	w := newWorld(t, 1, "edge")
	w.run("roles at the root", w.rolesAtTheRoot)
	w.run("roles at the site", w.rolesAtTheSite)
	w.run("tokens end", w.tokensEnd)
	w.run("hooks", w.hooks)
	w.run("another root", w.anotherRoot)
}

// user makes a user and returns its context file.
func (w *world) user(at *tier, name string, roles ...string) string {
	w.t.Helper()
	return w.file("user-", at.ok(append([]string{"user", "create", name}, roles...)...))
}

func (w *world) rolesAtTheRoot(t *testing.T) {
	w.root.ok("namespace", "create", "shop", "--quota", "instances=2,cpu=1")
	w.root.ok("namespace", "create", "bank")
	const app = "application: %s\nnamespace: %s\nservices:\n  main:\n    command: [testprogram, serve]\n    replicas: %d\n    resources: {cpu: 100m, memory: 16Mi}\n"
	file := func(name, namespace string, replicas int) string {
		return w.file("app-", fmt.Sprintf(app, name, namespace, replicas))
	}
	dev := w.user(w.root, "dev", "--developer", "shop")
	viewer := w.user(w.root, "viewer", "--viewer", "shop")
	operator := w.user(w.root, "op", "--operator", "edge")
	other := w.user(w.root, "other", "--operator", "fog", "--developer", "bank")
	run := func(who string, args ...string) result { return verge(t, who, args...) }

	if r := run(dev, "apply", "--no-wait", file("stall", "shop", 1)); r.code != 0 {
		t.Fatalf("a developer's apply: %s%s", r.out, r.err)
	}
	refused(t, "over the quota", run(dev, "apply", "--no-wait", file("stall", "shop", 3)), "instances: 2 allowed, 1 used, 3 asked for, 1 too much")
	refused(t, "a developer outside the namespace", run(dev, "apply", "--no-wait", file("vault", "bank", 1)), "no such namespace", "bank")
	refused(t, "a namespace that is not there", run(dev, "apply", "--no-wait", file("vault", "none", 1)), "no such namespace", "none")
	refused(t, "a name of another's", run(other, "apply", "--no-wait", file("stall", "bank", 1)), "the name is taken")
	refused(t, "a viewer's delete", run(viewer, "delete", "application/stall"), "developer of namespace shop")
	refused(t, "an outsider's delete", run(other, "delete", "application/stall"), "no such application")
	refused(t, "a developer's user", run(dev, "user", "create", "x", "--admin"), "an administrator")
	refused(t, "an operator's token", run(operator, "token", "create", "--cluster", "x"), "an administrator")
	refused(t, "a cluster's name that is taken", run(w.root.contextFile(), "token", "create", "--cluster", "edge"), "taken")
	for who, sees := range map[string][3]string{ // applications, clusters, workers
		dev: {"application/stall", "", ""}, viewer: {"application/stall", "", ""}, operator: {"", "cluster/edge", "worker/edge/edge-1"}, other: {"", "", ""},
	} {
		for i, kind := range []string{"applications", "clusters", "workers"} {
			r := run(who, "get", kind, "-A", "-o", "name")
			wantEqual(t, kind, strings.TrimSpace(r.out), sees[i])
			wantEqual(t, kind+": exit code", r.code, 0)
		}
		if r := run(who, "events"); sees == [3]string{} && strings.Contains(r.out, "stall") {
			t.Errorf("an outsider's events: %s", r.out)
		}
	}
	refused(t, "a namespace in use", run(w.root.contextFile(), "namespace", "rm", "shop"), "stall")
	audit := w.root.ok("audit", "-o", "json")
	for _, words := range [][]string{
		{`"who": "user/dev"`, `"what": "apply"`, `"on": "application/stall"`, `"from": "127.0.0.1"`},
		{`"who": "user/viewer"`, `"what": "delete-application"`, `"result": "forbidden"`}, {`"on": "user/other"`},
	} {
		wantWords(t, "audit", audit, words...)
	}
	if strings.Contains(audit, "verge-api-") {
		t.Error("a token is in the audit log")
	}
	refused(t, "a developer's look at the audit log", run(dev, "audit"), "an administrator")
}

// The cluster's own people are not the root's.
func (w *world) rolesAtTheSite(t *testing.T) {
	edge := w.cluster["edge"]
	operator := w.user(edge, "op", "--operator", "edge")
	refused(t, "an operator of another cluster", verge(t, edge.contextFile(), "user", "create", "x", "--operator", "fog"), "fog")
	wantEqual(t, "its workers", verge(t, operator, "get", "workers", "-o", "name").out, "worker/edge/edge-1\n")
	if r := verge(t, operator, "token", "create", "--worker"); r.code != 0 {
		t.Errorf("an operator's token for a worker: %s", r.err)
	}
	refused(t, "an operator's user", verge(t, operator, "user", "ls"), "an administrator")
	refused(t, "an operator's token for programs", verge(t, operator, "token", "create", "--api"), "an administrator")
	wantWords(t, "the site's audit log", edge.ok("audit"), "create-token", "user/op")
	// The context of the cluster is at the root an operator of it.
	own := w.contextAt(edge.contextFile(), w.root)
	wantWords(t, "the cluster's context at the root", verge(t, own, "whoami").out, "operator of edge")
	refused(t, "the cluster's context at the root", verge(t, own, "user", "ls"), "an administrator")
}

// contextAt is a copy of a context file for another server.
func (w *world) contextAt(context string, at *tier) string {
	w.t.Helper()
	e := must[client.Context](w.t)(client.ReadContext(context))
	to := must[client.Context](w.t)(client.ReadContext(at.contextFile()))
	e.Server, e.ServerName = to.Server, to.ServerName
	text, err := e.Encode()
	if err != nil {
		w.t.Fatal(err)
	}
	return w.file("context-", text)
}

func (w *world) tokensEnd(t *testing.T) {
	short := w.user(w.root, "short", "--viewer", "shop", "--ttl", "1s")
	eventually(t, 15*time.Second, "a token of a second expires", func() error {
		if r := verge(t, short, "whoami"); r.code == 0 || !strings.Contains(r.err, "expired") {
			return errText(r.out + r.err)
		}
		return nil
	})
	bob := w.user(w.root, "bob", "--viewer", "shop")
	again := w.file("user-", w.root.ok("user", "token", "bob"))
	refused(t, "a replaced token", verge(t, bob, "whoami"), "not known")
	wantWords(t, "its new token", verge(t, again, "whoami").out, "user/bob", "viewer of shop")
	w.root.ok("user", "revoke", "bob", "--viewer", "shop")
	wantWords(t, "without its role", verge(t, again, "whoami").out, "no roles")
	wantEqual(t, "what it sees", verge(t, again, "get", "apps", "-A", "-o", "name").out, "")
	w.root.ok("user", "rm", "bob")
	refused(t, "a removed user", verge(t, again, "whoami"), "not known")
	// Nothing of this touches the administrator's certificate.
	w.root.ok("user", "ls")
}

// anotherRoot is one of the same name, with a cluster of the same name: whoever
// belongs to the one has no business at the other.
func (w *world) anotherRoot(t *testing.T) {
	second := newRoot(t)
	second.addCluster("edge").answers()
	bob := w.user(w.root, "carl", "--admin")
	for what, c := range map[string]struct {
		context string
		at      *tier
	}{
		"a certificate at another root":    {w.root.contextFile(), second.root},
		"a token at another root":          {bob, second.root},
		"a cluster's at another's cluster": {w.cluster["edge"].contextFile(), second.cluster["edge"]},
	} {
		refused(t, what, verge(t, w.contextAt(c.context, c.at), "get", "apps"), "not from the authority that this context trusts", "new context file")
	}
	// A token does not help who trusts the right authority.
	e, to := must[client.Context](t)(client.ReadContext(bob)), must[client.Context](t)(client.ReadContext(second.root.contextFile()))
	e.Server, e.ServerName, e.CA = to.Server, to.ServerName, to.CA
	text, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	refused(t, "a token of another root", verge(t, w.file("context-", text), "get", "apps"), "not known here")

	// A cluster that is led to the other root says so, goes on, and comes back.
	edge := w.cluster["edge"]
	edge.kill()
	args := edge.args
	edge.args = append(append([]string{}, args...), "--root", second.root.link)
	edge.start()
	edge.answers()
	eventually(t, 20*time.Second, "the cluster refuses another root", func() error {
		s, err := edge.client().System.Status(t.Context())
		if err == nil && (s.Upstream == "connected" || !strings.HasPrefix(s.Upstream, "away")) {
			err = errText("upstream is " + s.Upstream)
		}
		return err
	})
	list, err := second.root.client().Clusters.List(t.Context())
	if err != nil || len(list) != 1 || !list[0].Connected {
		t.Errorf("the other root's own cluster: %+v, %v", list, err)
	}
	edge.kill()
	edge.args = args
	edge.start()
	edge.answers()
	eventually(t, 20*time.Second, "the cluster is back at its root", func() error {
		list, err := w.root.client().Clusters.List(t.Context())
		if err == nil && (len(list) != 1 || !list[0].Connected) {
			err = errText(fmt.Sprintf("%+v", list))
		}
		return err
	})
	// Its name is taken for everybody else.
	if _, err := w.root.client().Tokens.Create(t.Context(), apiv1.TokenRequest{Kind: "cluster", Cluster: "edge"}); err == nil {
		t.Error("a token for the name of a cluster that has joined")
	}
}
