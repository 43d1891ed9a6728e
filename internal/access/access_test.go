package access

import (
	"context"
	"errors"
	"strings"
	"testing"
)

var (
	admin    = Who{Name: "admin/ann", Admin: true}
	dev      = Who{Name: "user/dev", Namespaces: map[string]Role{"shop": Developer}}
	viewer   = Who{Name: "user/viewer", Namespaces: map[string]Role{"shop": Viewer}}
	monitor  = Who{Name: "user/prom", Monitor: true}
	operator = Who{Name: "user/op", Clusters: map[string]Role{"edge": Operator}}

	shopApp  = Object{Kind: Application, Name: "web", Namespace: "shop"}
	bankApp  = Object{Kind: Application, Name: "vault", Namespace: "bank"}
	inEdge   = Object{Kind: Instance, Name: "web.a.0", Namespace: "shop", Cluster: "edge"}
	inFog    = Object{Kind: Instance, Name: "web.a.1", Namespace: "shop", Cluster: "fog"}
	atSite   = Object{Kind: Instance, Name: "web.a.0", Namespace: "shop", Cluster: "edge", Site: true}
	edge     = Object{Kind: Cluster, Name: "edge", Cluster: "edge"}
	fog      = Object{Kind: Cluster, Name: "fog", Cluster: "fog"}
	worker   = Object{Kind: Worker, Name: "edge/w1", Cluster: "edge"}
	system   = Object{Kind: System}
	person   = Object{Kind: User, Name: "bob", Cluster: "edge", Site: true}
	homeless = Object{Kind: Application, Name: "lost"}
)

func all() []Verb {
	var out []Verb
	for v := range verbs {
		out = append(out, v)
	}
	return out
}

// What each may do is written out; every other verb must be refused.
func TestWhoMayDoWhat(t *testing.T) {
	read := []Verb{See, Logs, Top, Fetch}
	develop := append([]Verb{Plan, Apply, Delete, Scale, Restart, Exec, Profile, Secret, Hook, Store}, read...)
	var everything, butPeople []Verb
	for _, v := range all() {
		everything = append(everything, v)
		if v != Manage {
			butPeople = append(butPeople, v)
		}
	}
	for _, c := range []struct {
		what   string
		who    Who
		object Object
		may    []Verb
		hidden bool
	}{
		{"admin, application", admin, bankApp, everything, false},
		{"admin, system", admin, system, everything, false},
		{"developer, own", dev, shopApp, develop, false},
		{"developer, own instance", dev, inFog, develop, false},
		{"developer, another's", dev, bankApp, nil, true},
		{"developer, cluster", dev, edge, nil, true},
		{"developer, system", dev, system, nil, false},
		{"viewer, own", viewer, shopApp, read, false},
		{"viewer, another's", viewer, bankApp, nil, true},
		{"operator, own cluster", operator, edge, butPeople, false},
		{"operator, own worker", operator, worker, butPeople, false},
		{"operator, another's cluster", operator, fog, nil, true},
		{"operator, what runs there, at the root", operator, inEdge, read, false},
		{"operator, what runs elsewhere", operator, inFog, nil, true},
		{"operator, what runs there, at the site", operator, atSite, butPeople, false},
		{"operator, an application at the root", operator, shopApp, nil, true},
		{"operator, system", operator, system, nil, false},
		{"operator, people at the site", operator, person, nil, false},
		{"monitor, system", monitor, system, []Verb{Measure}, false},
		{"monitor, worker", monitor, worker, []Verb{Measure}, true},
		{"monitor, application", monitor, shopApp, nil, true},
		{"monitor, cluster", monitor, edge, nil, true},
		{"nobody, application", Who{}, shopApp, nil, true},
		{"nobody, system", Who{}, system, nil, false},
		// A namespace or cluster without a name must not match a role without one.
		{"a role without a name",
			Who{Namespaces: map[string]Role{"": Developer}, Clusters: map[string]Role{"": Operator}}, homeless, nil,
			false},
		{"an unknown role", Who{Namespaces: map[string]Role{"shop": "owner"},
			Clusters: map[string]Role{"edge": Developer}}, inEdge, nil, true},
	} {
		may := map[Verb]bool{}
		for _, v := range c.may {
			may[v] = true
		}
		for _, v := range all() {
			err := May(c.who, v, c.object)
			var d *Denied
			switch {
			case (err == nil) != may[v]:
				t.Errorf("%s: %s gave %v", c.what, v, err)
			case err != nil && (!errors.As(err, &d) || d.Hidden != c.hidden):
				t.Errorf("%s: %s gave %#v, want hidden=%v", c.what, v, err, c.hidden)
			case err != nil && !c.hidden && !strings.Contains(d.Error(), "an administrator"):
				t.Errorf("%s: %s does not say who may: %v", c.what, v, err)
			}
		}
	}
}

func TestUnknownVerbsAreRefused(t *testing.T) {
	for _, w := range []Who{admin, dev, operator, {}} {
		for _, v := range []Verb{"", "fly"} {
			if May(w, v, shopApp) == nil {
				t.Errorf("%s may %q", w.Name, v)
			}
		}
	}
}

func TestReasons(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{May(viewer, Delete, shopApp),
			"user/viewer may not do that: deleting application/web needs developer of namespace shop or an " +
				"administrator"},
		{May(operator, Exec, inEdge),
			"user/op may not do that: running a command in instance/web.a.0 needs developer of namespace shop or an " +
				"administrator"},
		{May(dev, Manage, system), "user/dev may not do that: managing the system needs an administrator"},
		{May(viewer, Exec, atSite),
			"user/viewer may not do that: running a command in instance/web.a.0 needs developer of namespace shop or " +
				"operator of cluster edge or an administrator"},
		{May(dev, Measure, system),
			"user/dev may not do that: reading the metrics of the system needs monitor or an administrator"},
		{May(dev, Delete, bankApp), "there is no such application: vault"},
	} {
		if c.err == nil || c.err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", c.err, c.want)
		}
	}
}

func TestVisible(t *testing.T) {
	list := []Object{shopApp, bankApp, inEdge, inFog, edge, fog}
	self := func(o Object) Object { return o }
	for _, c := range []struct {
		who  Who
		want int
	}{{admin, 6}, {dev, 3}, {viewer, 3}, {operator, 2}, {Who{}, 0}} {
		if got := Visible(c.who, list, self); len(got) != c.want {
			t.Errorf("%s sees %v", c.who.Name, got)
		}
	}
	if len(list) != 6 || list[1] != bankApp {
		t.Error("the list itself was changed")
	}
}

func TestContext(t *testing.T) {
	ctx := context.Background()
	if w := From(ctx); w.Admin || w.Name != "" {
		t.Errorf("nobody is %+v", w)
	}
	if w := From(With(ctx, dev)); w.Name != dev.Name {
		t.Errorf("got %+v", w)
	}
}

// A node may do what its lists say with objects, and nothing else with anything.
func TestNodesMayReachObjectsOnly(t *testing.T) {
	shop, bank := Object{Kind: Namespace, Name: "shop", Namespace: "shop", Cluster: "edge", Site: true},
		Object{Kind: Namespace, Name: "bank", Namespace: "bank"}
	node := Who{
		Name: "edge/w1", Node: true, Reads: map[string]bool{"shop": true, "bank": true},
		Writes: map[string]bool{"shop": true},
		// Should it ever have a role as well, that counts for nothing.
		Clusters: map[string]Role{"edge": Operator}, Namespaces: map[string]Role{"shop": Developer},
	}
	for _, o := range []Object{shop, bank, shopApp, inEdge, edge, worker, system, {Kind: Namespace}} {
		for _, v := range all() {
			want := o == shop && (v == Fetch || v == Store) || o == bank && v == Fetch
			if err := May(node, v, o); (err == nil) != want {
				t.Errorf("%s %s: %v", v, o, err)
			}
		}
	}
}
