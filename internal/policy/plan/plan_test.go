package plan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/descriptor"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

func parse(t *testing.T, text string) *api.Application {
	t.Helper()
	app, _, err := descriptor.Parse("", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return app
}

const base = `application: shop
services:
  web:
    command: [x, a]
    replicas: 2
    env: {MODE: slow}
    files: {conf: {content: "a"}}
    resources: {cpu: 100m}
    ports: [{name: http, ingress: {host: a.test}}]
  db: {command: [y]}
`

func TestServicesAreComparedFieldByField(t *testing.T) {
	old := parse(t, base)
	for name, c := range map[string]struct {
		from, to string
		want     string
	}{
		"same":    {"", "", "db unchanged; web unchanged"},
		"scaled":  {"replicas: 2", "replicas: 3", "db unchanged; web scaled 2 3 replicas=2>3"},
		"command": {"[x, a]", "[x, b]", `db unchanged; web changed 2 2 command=["x","a"]>["x","b"]`},
		"both":    {"replicas: 2\n    env: {MODE: slow}", "replicas: 1\n    env: {MODE: slow}\n    stop: {signal: SIGINT}", "db unchanged; web changed"},
		"env":     {"MODE: slow", "MODE: fast, X: y", "db unchanged; web changed 2 2 env.MODE=(not shown)>(not shown) env.X=>(not shown)"},
		"file":    {`content: "a"`, `content: "abc"`, "db unchanged; web changed 2 2 files.conf.content=(1 bytes)>(3 bytes)"},
		"empty":   {"ports: [", "liveness: {tcp: {}}\n    ports: [", "db unchanged; web changed 2 2 liveness.failures"},
		"nested":  {"a.test", "b.test", "db unchanged; web changed 2 2 ports[0].ingress.host=a.test>b.test"},
		"removed": {"  db: {command: [y]}\n", "", "db removed; web unchanged"},
		"added":   {"  db:", "  cache: {command: [z]}\n  db:", "cache added; db unchanged; web unchanged"},
	} {
		next := parse(t, strings.Replace(base, c.from, c.to, 1))
		var got []string
		for _, s := range Services(old, next) {
			line := s.Name + " " + s.Change
			if s.Change == apiv1.ServiceChanged || s.Change == apiv1.ServiceScaled {
				line += fmt.Sprintf(" %d %d", s.From, s.To)
			}
			for _, f := range s.Fields {
				line += fmt.Sprintf(" %s=%s>%s", f.Field, f.Old, f.New)
			}
			got = append(got, line)
		}
		if text := strings.Join(got, "; "); !strings.HasPrefix(text, c.want) || c.want == "" {
			t.Errorf("%s: %s, want %s", name, text, c.want)
		}
	}
	if all := Services(nil, old); len(all) != 2 || all[1].Change != apiv1.ServiceAdded || all[1].To != 2 {
		t.Errorf("%+v", all)
	}
	if all := Services(old, nil); len(all) != 2 || all[1].Change != apiv1.ServiceRemoved || all[1].From != 2 {
		t.Errorf("%+v", all)
	}
	if s := Service("x", nil, nil); s.Change != apiv1.ServiceUnchanged {
		t.Errorf("%+v", s)
	}
}

func TestWhatIsSaidIsBounded(t *testing.T) {
	a, b := &api.Service{Env: map[string]string{}}, &api.Service{Command: []string{strings.Repeat("é", 500)}, Env: map[string]string{}}
	for n := range 500 {
		b.Env[fmt.Sprint("V", n)] = "x"
	}
	fields := Fields(a, b)
	if len(fields) != maxFields+1 || !strings.Contains(fields[maxFields].New, "more fields") {
		t.Fatalf("%d fields", len(fields))
	}
	for _, f := range fields {
		if len([]rune(f.New)) > maxText+1 {
			t.Errorf("%d letters of %s", len([]rune(f.New)), f.Field)
		}
	}
	p := apiv1.Plan{}
	for n := range 200 {
		p.Instances = append(p.Instances, rpc.InstancePlan{ID: fmt.Sprint("a.b.", 199-n), Service: "b", Action: rpc.PlanStart, Decisions: []rpc.Explained{{}}})
	}
	Close(&p)
	kept := 0
	for n, i := range p.Instances {
		if i.ID != fmt.Sprint("a.b.", n) {
			t.Fatalf("%s is number %d", i.ID, n)
		}
		kept += len(i.Decisions)
	}
	if kept != maxDecisions {
		t.Errorf("%d decisions", kept)
	}
}

func TestAPlanIsSummedUp(t *testing.T) {
	p := apiv1.Plan{Services: []apiv1.ServicePlan{
		{Name: "a", Change: apiv1.ServiceChanged}, {Name: "b", Change: apiv1.ServiceChanged}, {Name: "c", Change: apiv1.ServiceUnchanged}, {Name: "d", Change: apiv1.ServiceAdded},
	}}
	for _, s := range []string{"a restart", "a restart", "a move", "a start", "a wait", "a stop", "b keep", "c keep"} {
		svc, action, _ := strings.Cut(s, " ")
		p.Instances = append(p.Instances, rpc.InstancePlan{ID: fmt.Sprintf("x.%s.%d", svc, len(p.Instances)), Service: svc, Action: action})
	}
	Close(&p)
	var effects []string
	for _, s := range p.Services {
		effects = append(effects, s.Effect)
	}
	want := "2 instances restart, 1 moves, 1 starts, 1 stops, 1 waits; in place; nothing; no instance"
	if got := strings.Join(effects, "; "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if p.Restarts != 3 || p.Moves != 1 || p.Starts != 1 || p.Stops != 1 || p.Waits != 1 || p.Placed {
		t.Errorf("%+v", p)
	}
	empty := apiv1.Plan{}
	if Close(&empty); !empty.Placed || empty.Instances == nil {
		t.Errorf("%+v", empty)
	}
}
