package e2e

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// watched applications: one that talks, in two instances, and one that is busy.
func dayOne(replicas int) string {
	return fmt.Sprintf(`application: day
namespace: shop
services:
  talk:
    command: [sh, -c, "echo hello of $$VERGE_INSTANCE; exec sleep 100000"]
    replicas: %d
    resources: {cpu: 50m, memory: 16Mi}
`, replicas)
}

const busyApp = `application: busy
services:
  loop:
    command: [sh, -c, "while :; do :; done"]
    resources: {cpu: 500m, memory: 16Mi}
    limits: {cpu: 500m}
`

// TestDayOne is what an operator does on the first day, at a root and at a
// cluster's own interface.
func TestDayOne(t *testing.T) {
	t.Parallel() // it waits much more than it computes
	w := newWorld(t, 1, "edge")
	w.root.ok("namespace", "create", "shop")
	w.root.apply(dayOne(2))
	w.root.apply(busyApp)
	edge := w.cluster["edge"]
	eventually(t, 10*time.Second, "the cluster knows", func() error {
		return differs("instances", len(edge.instances("day")), 2)
	})
	for name, at := range map[string]*tier{"root": w.root, "cluster": edge} {
		w.run("watch and wait at the "+name, func(t *testing.T) { w.watches(t, at) })
		w.run("top at the "+name, func(t *testing.T) { w.tops(t, at) })
		w.run("logs at the "+name, func(t *testing.T) { w.logsOfSeveral(t, at) })
	}
	w.run("a developer", w.developersDay)
	w.run("over restarts", w.watchesOverRestarts)
}

// goesOn starts a command that goes on until the test ends.
func (x *tier) goesOn(args ...string) *commandLine {
	x.w.t.Helper()
	c := &commandLine{cmd: exec.Command(programs.verge, args...)}
	c.cmd.Env = environment("VERGE_CONTEXT=" + x.contextFile())
	c.cmd.Stdout, c.cmd.Stderr = &c.out, &c.err
	if err := c.cmd.Start(); err != nil {
		x.w.t.Fatal(err)
	}
	x.w.t.Cleanup(func() {
		if c.cmd.ProcessState == nil {
			_, _ = c.cmd.Process.Kill(), c.cmd.Wait()
		}
	})
	return c
}

// says waits until the command has written something.
func (c *commandLine) says(t *testing.T, text string) {
	t.Helper()
	eventually(t, 30*time.Second, fmt.Sprintf("%s says %q", strings.Join(c.cmd.Args[1:], " "), text), func() error {
		if !strings.Contains(c.out.String()+c.err.String(), text) {
			return fmt.Errorf("it says\n%s%s", c.out.String(), c.err.String())
		}
		return nil
	})
}

// interrupt ends a command as Ctrl-C does.
func (c *commandLine) interrupt(t *testing.T) {
	t.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = c.cmd.Wait() // its exit code is looked at
	wantEqual(t, "exit code of "+strings.Join(c.cmd.Args[1:], " "), c.cmd.ProcessState.ExitCode(), 0)
}

// watches: what changes is seen by who watches, and waited for.
func (w *world) watches(t *testing.T, at *tier) {
	instances := at.goesOn("get", "instances", "-w", "--app", "day")
	names := at.goesOn("get", "services", "-w", "-o", "json")
	events := at.goesOn("events", "-w")
	status := at.goesOn("status", "-w")
	instances.says(t, "day.talk.1 ")
	names.says(t, `"app":"day"`)
	status.says(t, "day ")
	events.says(t, "day")
	if strings.Contains(instances.out.String(), "busy.") {
		t.Errorf("instances of day:\n%s", instances.out.String())
	}
	w.root.ok("scale", "day.talk", "--replicas", "3")
	instances.says(t, "day.talk.2 ")
	names.says(t, `"wanted":3`)
	events.says(t, "day.talk.2")
	status.says(t, "3/3")
	at.ok("wait", "application/day", "--timeout", "20s")
	at.ok("wait", "service/day.talk", "--timeout", "20s")
	at.ok("wait", "instance/day.talk.2", "--for", "running", "--timeout", "20s")
	waits := at.goesOn("wait", "instance/day.talk.2", "--for", "terminated", "--timeout", "40s")
	w.root.ok("scale", "day.talk", "--replicas", "2")
	instances.says(t, "day.talk.2   gone\n")
	waits.says(t, "instance/day.talk.2 is terminated\n")
	_ = waits.cmd.Wait() // its exit code is looked at
	wantEqual(t, "exit code of wait", waits.cmd.ProcessState.ExitCode(), 0)
	at.ok("wait", "worker/edge/edge-1")
	r := verge(t, at.contextFile(), "wait", "instance/day.talk.1", "--for", "terminated", "--timeout", "1s")
	if r.code != 2 || !strings.Contains(r.err, "it is Running") {
		t.Errorf("what does not come: %+v", r)
	}
	for _, c := range []*commandLine{instances, names, events, status} {
		c.interrupt(t)
	}
}

// tops: who uses what, by who measures it; and why not.
func (w *world) tops(t *testing.T, at *tier) {
	type list[T any] struct{ Items []T }
	eventually(t, 20*time.Second, "the busy one is seen to be busy", func() error {
		for _, v := range decode[list[rpc.InstanceTop]](t, at.ok("top", "instances", "-o", "json")).Items {
			switch {
			case v.Used == nil || v.Used.Memory < 100<<10 || v.Cluster != "edge" || v.Worker != "edge-1" || v.Reserved.CPU == 0:
				return fmt.Errorf("%+v", v)
			case v.ID == "busy.loop.0" && v.Used.CPU < 50, v.ID != "busy.loop.0" && v.Used.CPU > 40:
				return fmt.Errorf("%s uses %s", v.ID, v.Used.CPU)
			}
		}
		return nil
	})
	if out := at.ok("top", "instances", "--app", "day"); strings.Count(out, "\n") != 3 || strings.Contains(out, "busy") {
		t.Errorf("top of an application:\n%s", out)
	}
	eventually(t, 20*time.Second, "its worker is seen to be busy", func() error {
		workers := decode[list[rpc.WorkerTopView]](t, at.ok("top", "workers", "-o", "json")).Items
		if len(workers) != 1 || workers[0].Used == nil || workers[0].Used.CPU < 50 || workers[0].Instances != 3 {
			return fmt.Errorf("%+v", workers)
		}
		return nil
	})
	clusters := decode[list[apiv1.ClusterTop]](t, at.ok("top", "clusters", "-o", "json")).Items
	if len(clusters) != 1 || clusters[0].Used == nil || clusters[0].Measured != 1 || clusters[0].Workers != 1 {
		t.Errorf("clusters: %+v", clusters)
	}
	again := at.goesOn("top", "workers", "-w")
	again.says(t, "edge/edge-1")
	again.interrupt(t)
	// A worker that is silent is there, and said to be silent.
	worker := w.worker["edge-1"]
	worker.signal(syscall.SIGSTOP)
	defer worker.signal(syscall.SIGCONT)
	if out := at.ok("top", "workers"); !strings.Contains(out, "edge/edge-1   - ") || !strings.Contains(out, "does not answer") {
		t.Errorf("top of a silent worker:\n%s", out)
	}
	if out := at.ok("top", "instances", "--app", "busy"); !strings.Contains(out, "busy.loop.0   - ") || !strings.Contains(out, "does not answer") {
		t.Errorf("top on a silent worker:\n%s", out)
	}
	worker.signal(syscall.SIGCONT)
	eventually(t, 20*time.Second, "it is measured again", func() error {
		if out := at.ok("top", "workers"); strings.Contains(out, "does not answer") {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
}

func (w *world) logsOfSeveral(t *testing.T, at *tier) {
	hello := func(n int) string { return fmt.Sprintf("day.talk.%d | hello of day.talk.%d\n", n, n) }
	if out := at.ok("logs", "application/day", "--tail", "1"); out != hello(0)+hello(1) && out != hello(1)+hello(0) { // by their times
		t.Errorf("logs of an application:\n%s", out)
	}
	if out := at.ok("logs", "day.talk.1", "--tail", "1"); out != "hello of day.talk.1\n" {
		t.Errorf("logs of an instance:\n%s", out)
	}
	if out := at.ok("logs", "day.talk.0", "--since", "1h", "--tail", "1"); out != "hello of day.talk.0\n" {
		t.Errorf("since an hour: %q", out)
	}
	eventually(t, 15*time.Second, "what was written is long ago", func() error {
		return differs("logs of the last second", at.ok("logs", "application/day", "--since", "1s"), "")
	})
	follows := at.goesOn("logs", "service/day.talk", "-f", "--tail", "1")
	follows.says(t, hello(0))
	follows.says(t, hello(1))
	w.root.ok("scale", "day.talk", "--replicas", "3")
	follows.says(t, hello(2))
	w.root.ok("scale", "day.talk", "--replicas", "2")
	follows.says(t, "day.talk.2 is gone\n")
	follows.interrupt(t)
	if r := verge(t, at.contextFile(), "logs", "day.tal"); r.code != 1 || !strings.Contains(r.err, "day.tal could be day.talk.0, day.talk.1") {
		t.Errorf("an ambiguous beginning: %+v", r)
	}
	if out := at.ok("__completeNoDesc", "logs", "day"); !strings.HasPrefix(out, "day.talk.0\nday.talk.1\n") {
		t.Errorf("completion:\n%s", out)
	}
}

// developersDay: all of it shows a developer its namespace alone.
func (w *world) developersDay(t *testing.T) {
	for _, at := range []*tier{w.root, w.cluster["edge"]} {
		dev := w.user(at, "dev-"+at.name, "--developer", "shop")
		for line, want := range map[string]string{
			"top instances -o name":                "instance/day.talk.0\ninstance/day.talk.1\n",
			"top workers -o name":                  "",
			"top clusters -o name":                 "",
			"__completeNoDesc get instances ":      "day.talk.0\nday.talk.1\n:4\n",
			"wait application/day":                 "application/day is ready\n",
			"logs application/day --tail 1":        "day.talk.0 | hello of day.talk.0\nday.talk.1 | hello of day.talk.1\n",
			"__completeNoDesc get workers edge/ed": ":4\n",
		} {
			r := verge(t, dev, strings.Split(line, " ")...)
			got := r.out
			if strings.HasPrefix(line, "logs ") { // by their times, which may be in either order
				got = strings.Join(slices.Sorted(strings.Lines(got)), "")
			}
			if r.code != 0 || got != want {
				t.Errorf("%s, verge %s: %+v, want %q", at.name, line, r, want)
			}
		}
		for _, line := range []string{"wait application/busy", "logs application/busy", "logs busy.loop.0", "wait instance/busy.loop.0"} {
			if r := verge(t, dev, strings.Fields(line)...); r.code != 1 || !strings.Contains(r.err, "no such") {
				t.Errorf("%s, verge %s: %+v", at.name, line, r)
			}
		}
		if out := verge(t, dev, "top", "instances").out; strings.Contains(out, "does not") || strings.Count(out, "\n") != 3 {
			t.Errorf("%s: what a developer measures:\n%s", at.name, out)
		}
	}
}

// watchesOverRestarts: who watches is told that the server is away, and of what
// happened meanwhile.
func (w *world) watchesOverRestarts(t *testing.T) {
	instances := w.root.goesOn("get", "instances", "-w", "-o", "name")
	events := w.root.goesOn("events", "-w")
	logs := w.root.goesOn("logs", "application/day", "-f", "--tail", "1")
	namespaces := w.root.goesOn("get", "namespaces", "-w", "-o", "name")
	namespaces.says(t, "namespace/shop\n")
	instances.says(t, "instance/day.talk.1\n")
	events.says(t, "day")
	logs.says(t, "hello of day.talk.1")
	before := strings.Count(instances.out.String(), "\n")
	w.root.ok("namespace", "create", "heard") // who hears of that follows what happens
	events.says(t, "namespace/heard")
	w.root.kill()
	instances.says(t, "connecting again")
	events.says(t, "connecting again")
	w.root.start()
	w.root.answers()
	w.root.ok("scale", "day.talk", "--replicas", "3")
	instances.says(t, "instance/day.talk.2\n")
	w.root.ok("namespace", "create", "late")
	namespaces.says(t, "namespace/late\n")
	events.says(t, "day.talk.2")
	logs.says(t, "hello of day.talk.2")
	if now := strings.Count(instances.out.String(), "\n"); now != before+1 {
		t.Errorf("%d lines, %d before:\n%s", now, before, instances.out.String())
	}
	for _, c := range []*commandLine{instances, events, logs, namespaces} {
		c.interrupt(t)
	}
	follows := w.root.goesOn("logs", "application/day", "-f", "--tail", "1")
	follows.says(t, "hello of day.talk.2")
	w.root.ok("delete", "application/day")
	w.root.ok("wait", "application/day", "--for", "deleted")
	_ = follows.cmd.Wait() // its exit code is looked at
	wantEqual(t, "exit code of logs -f of what is gone", follows.cmd.ProcessState.ExitCode(), 0)
}
