package cli

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/rest/resttest"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

const hello = `application: hello
services:
  web:
    command: ["python3", "-m", "http.server", "$PORT"]
    replicas: 2
    ports:
      - name: http
        ingress: {host: hello.local}
`

// deployment plays what a root would do with hello: each call of tick lets it
// get one step further.
type deployment struct {
	fake  *resttest.Fake
	steps int
	hang  int // stop after so many steps; 0 never
}

func newDeployment() *deployment {
	d := &deployment{fake: &resttest.Fake{ApplicationData: resttest.ApplicationData{ApplyAnswer: apiv1.ApplyResult{Name: "hello", Revision: 1, Change: "created",
		Changes: 1}}}}
	d.fake.PlanAnswer = apiv1.Plan{ApplyResult: d.fake.ApplyAnswer, Placed: true, Source: "root",
		Services: []apiv1.ServicePlan{}, Instances: []rpc.InstancePlan{}}
	d.fake.Hook = func(f *resttest.Fake, op string) error {
		switch op {
		case "apply":
			f.Apps = []apiv1.AppView{d.view(0)}
		case "application":
			if d.hang == 0 || d.steps < d.hang {
				d.steps++
			}
			d.advance(f)
		}
		return nil
	}
	return d
}

func (d *deployment) view(ready int) apiv1.AppView {
	v := apiv1.AppView{Name: "hello", Revision: 1, Holds: ready == 2,
		Services: []apiv1.ServiceView{{Name: "web", Wanted: 2, Ready: ready, Hosts: []string{"hello.local"}}}}
	if !v.Holds {
		v.Message = "2 instances are not ready"
		v.Services[0].Message = "no cluster has room: needs 64Mi memory, largest free 12Mi"
	}
	return v
}

// advance: one transition of both instances in each step, ready after the last.
func (d *deployment) advance(f *resttest.Fake) {
	states := []wire.State{wire.Registered, wire.Requested, wire.ClusterScheduled, wire.WorkerScheduled, wire.Running}
	f.InstanceList = nil
	for ordinal, worker := range []string{"w1", "w2"} {
		i := apiv1.InstanceView{Source: "cluster/edge",
			Instance: wire.Instance{V: 1, ID: "hello.web." + string(rune('0'+ordinal)), App: "hello", Service: "web",
				Ordinal: ordinal, Incarnation: 1, Revision: 1}}
		for n := range min(d.steps, len(states)) {
			i.State = states[n]
			i.History = append(i.History,
				wire.Transition{To: states[n], At: noon.Add(time.Duration(n) * 100 * time.Millisecond), Tier: "root"})
		}
		if d.steps >= 3 {
			i.Cluster = "edge"
		}
		if d.steps >= 4 {
			i.Worker = worker
		}
		i.Ready = d.steps > len(states)
		f.InstanceList = append(f.InstanceList, i)
	}
	ready := 0
	if d.steps > len(states) {
		ready = 2
	}
	f.Apps = []apiv1.AppView{d.view(ready)}
}

func TestApplyPrintsEachStepAndHolds(t *testing.T) {
	d := newDeployment()
	d.fake.WorkerList = []rpc.WorkerView{{WorkerInfo: wire.WorkerInfo{Name: "w1", Gateway: "127.0.0.1:8480"}}}
	f := newFixture(t, d.fake)
	args := []string{"apply", f.file("hello.yaml", hello)}
	r := f.run(args...)
	f.golden("apply", r, args...)
	if r.code != 0 {
		t.Errorf("exit %d", r.code)
	}
	if string(d.fake.Applied[0]) != hello {
		t.Errorf("sent %q", d.fake.Applied[0])
	}
}

func TestApplyJSON(t *testing.T) {
	d := newDeployment()
	f := newFixture(t, d.fake)
	r := f.runWith(hello, "apply", "-", "-o", "json")
	var out struct {
		Name   string
		Change string
		Holds  bool
	}
	if err := json.Unmarshal([]byte(r.stdout), &out); err != nil || out.Name != "hello" || out.Change != "created" ||
		!out.Holds {
		t.Errorf("%v: %s", err, r.stdout)
	}
}

func TestApplyThatDoesNotHold(t *testing.T) {
	d := newDeployment()
	d.hang = 2
	f := newFixture(t, d.fake)
	args := []string{"apply", f.file("hello.yaml", hello), "--timeout", "5s"}
	r := f.run(args...)
	f.golden("apply-timeout", r, args...)
	if r.code != 2 {
		t.Errorf("exit %d", r.code)
	}
}

func TestApplyInterrupted(t *testing.T) {
	d := newDeployment()
	d.hang = 1
	f := newFixture(t, d.fake)
	ctx, cancel := context.WithCancel(t.Context())
	f.onSleep = cancel
	r := f.runContext(ctx, hello, "apply", "-")
	if r.code != 2 || !strings.Contains(r.stderr, "interrupted") {
		t.Errorf("%+v", r)
	}
}

// A root that restarts while apply waits costs nothing but time.
func TestApplyOutlivesARestart(t *testing.T) {
	d := newDeployment()
	inner, calls := d.fake.Hook, 0
	d.fake.Hook = func(f *resttest.Fake, op string) error {
		if op == "application" {
			if calls++; calls == 2 || calls == 3 {
				return wire.Problemf(503, "shutting-down", "try again", "this role is shutting down", "wait")
			}
		}
		return inner(f, op)
	}
	f := newFixture(t, d.fake)
	r := f.runWith(hello, "apply", "-")
	if r.code != 0 || strings.Count(r.stderr, "waiting for it") != 1 || strings.Count(r.stderr, "answers again") != 1 {
		t.Errorf("%+v", r)
	}
}

func TestApplyWithoutWaiting(t *testing.T) {
	d := newDeployment()
	f := newFixture(t, d.fake)
	if r := f.runWith(hello, "apply", "-", "--no-wait"); r.code != 0 ||
		r.stdout != "application/hello created, revision 1: 1 change applied\n" {
		t.Errorf("%+v", r)
	}
	if r := f.runWith(hello, "apply", "-", "--dry-run"); r.code != 0 ||
		!strings.HasPrefix(r.stdout, "application/hello would be created (dry run), revision 1\n") {
		t.Errorf("%+v", r)
	}
	if r := f.runWith(hello, "apply", "-", "--no-wait", "-o", "name"); r.stdout != "application/hello\n" {
		t.Errorf("%+v", r)
	}
}

func TestApplyDoesNotRepeatOldSteps(t *testing.T) {
	d := newDeployment()
	d.steps = 6
	d.advance(d.fake)
	d.fake.ApplyAnswer.Change = "unchanged"
	f := newFixture(t, d.fake)
	r := f.runWith(hello, "apply", "-")
	if r.code != 0 || strings.Contains(r.stderr, "Running") {
		t.Errorf("%+v", r)
	}
}

func TestApplyErrors(t *testing.T) {
	d := newDeployment()
	f := newFixture(t, d.fake)
	bad := f.file("bad.yaml", "application: hello\nservices:\n  web:\n    comand: [x]\n")
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"invalid", []string{"apply", bad}, "bad.yaml:4"},
		{"missing file", []string{"apply", "DIR/nothing.yaml"}, "no such file"},
		{"folder", []string{"apply", f.dir}, "is a directory"},
		{"bad timeout", []string{"apply", bad, "--timeout", "-1s"}, "--timeout"},
	} {
		r := f.run(c.args...)
		if r.code != 1 || !strings.Contains(r.stderr, c.want) || !strings.Contains(r.stderr, "→") || r.stdout != "" {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
	if len(d.fake.Applied) != 0 {
		t.Error("something was sent")
	}
	d.fake.Hook = func(*resttest.Fake, string) error { return errors.New("disk full") }
	if r := f.runWith(hello, "apply", "-"); r.code != 1 || !strings.Contains(r.stderr, "disk full") {
		t.Errorf("%+v", r)
	}
}

func TestApplyTooLarge(t *testing.T) {
	d := newDeployment()
	f := newFixture(t, d.fake)
	r := f.runWith(hello+"#"+strings.Repeat("x", 2<<20), "apply", "-")
	if r.code != 1 || len(d.fake.Applied) != 0 || !strings.Contains(r.stderr, "stdin") {
		t.Errorf("exit %d, %d sent: %.300s", r.code, len(d.fake.Applied), r.stderr)
	}
}

func TestValidate(t *testing.T) {
	f := newFixture(t, &resttest.Fake{})
	if r := f.run("validate", f.file("hello.yaml", hello)); r.code != 0 ||
		r.stdout != "DIR/hello.yaml: valid: 1 service, 2 instances\n" {
		t.Errorf("%+v", r)
	}
	r := f.runWith("application: hello\nservices:\n  web:\n    comand: [x]\n    replicas: many\n", "validate", "-")
	if r.code != 1 || !strings.Contains(r.stderr, "stdin:4:") || !strings.Contains(r.stderr, "stdin:5:") {
		t.Errorf("%+v", r)
	}
}

func TestDelete(t *testing.T) {
	fake := world()
	polls := 0
	fake.Hook = func(f *resttest.Fake, op string) error {
		if op == "application" {
			switch polls++; polls {
			case 2:
				i := &f.InstanceList[0]
				i.State, i.Ready = wire.Terminated, false
				i.History = append(i.History,
					wire.Transition{To: wire.Terminated, At: noon.Add(time.Second), Tier: "cluster/edge",
						Why: "deleted"})
			case 4:
				f.Apps = f.Apps[1:]
				f.InstanceList = nil
			}
		}
		return nil
	}
	f := newFixture(t, fake)
	args := []string{"delete", "app/guestbook"}
	f.golden("delete", f.run(args...), args...)
}

func TestDeleteThatTakesTooLong(t *testing.T) {
	f := newFixture(t, world())
	args := []string{"delete", "application", "guestbook", "--timeout", "3s"}
	r := f.run(args...)
	f.golden("delete-timeout", r, args...)
	if r.code != 2 {
		t.Errorf("exit %d", r.code)
	}
	if r := f.run("delete", "app/guestbook", "--no-wait"); r.code != 0 {
		t.Errorf("%+v", r)
	}
}

func TestGatewayAt(t *testing.T) {
	for _, c := range []struct{ gateway, address, want string }{
		{"127.0.0.1:8480", "10.0.0.1:8474", "127.0.0.1:8480"},
		{"[::]:8480", "10.0.0.1:8474", "10.0.0.1:8480"},
		{"0.0.0.0:8480", "[fd00::1]:8474", "[fd00::1]:8480"},
		{":8480", "shop.example:8474", "shop.example:8480"},
		{"[::]:8480", "", "GATEWAY:8480"},
		{"[::]:8480", "[::]:8474", "GATEWAY:8480"},
	} {
		if got := gatewayAt(&rpc.WorkerView{WorkerInfo: wire.WorkerInfo{Gateway: c.gateway,
			Address: c.address}}); got != c.want {
			t.Errorf("gateway %s of a worker at %q: %s, want %s", c.gateway, c.address, got, c.want)
		}
	}
}
