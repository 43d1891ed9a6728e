package cli

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/rest/resttest"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

func TestGetWatch(t *testing.T) {
	f := newFixture(t, world())
	w := f.begin("get", "instances", "-w", "--service", "front")
	first := w.until("guestbook.front.2   Running               yes       edge/w1   0          2m      " +
		"cluster/edge 2s ago\n")
	if !strings.HasPrefix(first, "INSTANCE ") || strings.Count(first, "\n") != 4 || strings.Contains(first, "store") {
		t.Errorf("first:\n%s", first)
	}
	f.fake.Change(func(f *resttest.Fake) {
		f.InstanceList[0].Ready = false
		f.InstanceList[3].Ready = true // of another service
	})
	if got := w.until("\n"); !strings.HasPrefix(got, "guestbook.front.0   Running               no ") {
		t.Errorf("changed: %s", got)
	}
	f.fake.Change(func(f *resttest.Fake) { f.InstanceList = f.InstanceList[1:] })
	if got := w.until("\n"); got != "guestbook.front.0   gone\n" {
		t.Errorf("gone: %q", got)
	}
	if code, rest := w.end(); code != 0 || rest != "" {
		t.Errorf("ended with %d, %q", code, rest)
	}
}

// What changes in one service of an application is one line, and a service that is
// left out is gone.
func TestGetWatchServices(t *testing.T) {
	f := newFixture(t, world())
	w := f.begin("get", "services", "-w", "--app", "guestbook")
	w.until("guestbook.store")
	w.until("\n")
	f.fake.Change(func(f *resttest.Fake) {
		services := append([]apiv1.ServiceView(nil), f.Apps[0].Services...)
		services[0].Ready = 2
		f.Apps[0].Services = services
	})
	if got := w.until("\n"); !strings.HasPrefix(got, "guestbook.front   3        3        3         2 ") {
		t.Errorf("changed: %q", got)
	}
	f.fake.Change(func(f *resttest.Fake) { f.Apps[0].Services = f.Apps[0].Services[:1] })
	if got := w.until("\n"); got != "guestbook.store   gone\n" {
		t.Errorf("left out: %q", got)
	}
	if code, rest := w.end(); code != 0 || rest != "" {
		t.Errorf("ended with %d, %q", code, rest)
	}
}

func TestGetWatchForms(t *testing.T) {
	f := newFixture(t, world())
	asJSON, asYAML, names := f.begin("get", "app", "hello", "-w", "-o", "json"),
		f.begin("get", "workers", "-w", "-o", "yaml"), f.begin("get", "clusters", "-w", "-o", "name")
	if got := asJSON.until("\n"); !strings.HasPrefix(got, `{"type":"put","object":{"name":"hello",`) {
		t.Errorf("JSON: %s", got)
	}
	if got := asYAML.until("name: w2\n"); !strings.HasPrefix(got, "---\ntype: put\nobject:\n") {
		t.Errorf("YAML: %s", got)
	}
	names.until("cluster/cloud\ncluster/edge\ncluster/fog\n")
	f.fake.Change(func(f *resttest.Fake) {
		f.Apps = f.Apps[:1]
		f.ClusterList[0].Connected = true
		f.ClusterList = append(f.ClusterList, apiv1.ClusterView{Name: "sea"})
	})
	if got := asJSON.until("\n"); !strings.HasPrefix(got, `{"type":"gone","object":{"name":"hello",`) {
		t.Errorf("JSON: %s", got)
	}
	if got := names.until("\n"); got != "cluster/sea\n" {
		t.Errorf("names: %s", got)
	}
	f.fake.Change(func(f *resttest.Fake) { f.Spaces = []apiv1.NamespaceView{{Name: "default"}} })
	spaces := f.begin("get", "namespaces", "-w", "-o", "name")
	spaces.until("namespace/default\n")
	f.fake.Change(func(f *resttest.Fake) { f.Spaces = append(f.Spaces, apiv1.NamespaceView{Name: "shop"}) })
	if got := spaces.until("\n"); got != "namespace/shop\n" {
		t.Errorf("namespaces: %s", got)
	}
}

// The namespace of a context chooses applications, and hides no clusters.
func TestGetWatchInANamespace(t *testing.T) {
	fake := world()
	fake.Apps[0].Namespace = "shop"
	f := newFixture(t, fake)
	apps := f.begin("get", "apps", "-w", "-n", "shop", "-o", "name")
	clusters := f.begin("get", "clusters", "-w", "-n", "shop", "-o", "name")
	ofDefault := f.begin("get", "apps", "-w", "-n", "default", "-o", "name")
	if got := apps.until("\n"); got != "application/guestbook\n" {
		t.Errorf("applications: %s", got)
	}
	if got := ofDefault.until("\n"); got != "application/hello\n" {
		t.Errorf("applications of default: %s", got)
	}
	clusters.until("cluster/fog\n")
}

func TestEventsFollow(t *testing.T) {
	for _, flag := range []string{"-f", "-w"} {
		f := newFixture(t, world())
		e := f.begin("events", flag)
		if got := e.until("5 times in a row\n"); strings.Count(got, "\n") != 3 {
			t.Errorf("first:\n%s", got)
		}
		f.fake.Change(func(f *resttest.Fake) {
			f.EventList = append(f.EventList,
				apiv1.Event{Seq: 11, At: noon, Tier: "root", Subject: "cluster/fog", What: "connected"})
		})
		if got := e.until("\n"); !strings.HasSuffix(got, "cluster/fog                   connected\n") {
			t.Errorf("next: %s", got)
		}
		if code, rest := e.end(); code != 0 || rest != "" {
			t.Errorf("ended with %d, %q", code, rest)
		}
	}
	f := newFixture(t, world())
	f.golden("events-wide", f.run("events", "-o", "wide"), "events", "-o", "wide")
	f.golden("events-name", f.run("events", "-o", "name"), "events", "-o", "name")
}

// A server that is started again with another store is told of, and only what is
// new is printed.
func TestWatchesOverARestart(t *testing.T) {
	f := newFixture(t, world())
	instances, events := f.begin("get", "instances", "-w"), f.begin("events", "-w", "-o", "name")
	instances.until("guestbook.store.0 ")
	instances.until("\n")
	events.until("event/10\n")
	for late := time.After(20 * time.Second); f.server.Watching() != 2; {
		select {
		case <-time.After(time.Millisecond):
		case <-late:
			t.Fatal("they do not watch")
		}
	}
	f.fake.Change(func(f *resttest.Fake) {
		f.InstanceList = f.InstanceList[1:]
		for i := range f.InstanceList {
			f.InstanceList[i].AgeSeconds += 10
		}
		f.EventList = append(f.EventList, apiv1.Event{Seq: 12, At: noon})
	})
	f.restart()
	if got := events.until("event/12\n"); strings.Contains(got, "event/10") {
		t.Errorf("events: %s", got)
	}
	if got := instances.until("gone\n"); strings.Count(got, "guestbook") != 1 {
		t.Errorf("instances: %s", got)
	}
	for _, l := range []*live{instances, events} {
		if code, rest := l.end(); code != 0 || rest != "" {
			t.Errorf("ended with %d, %q", code, rest)
		}
	}
}

// A server that goes away when it has answered the first question of a command that
// watches ends none of them: each says so once, and goes on with what is new.
func TestWatchesBegunWhileTheServerGoes(t *testing.T) {
	for line, c := range map[string]struct {
		op          string
		n           int // which question of this kind is its last
		first, next string
	}{
		"events -w -o name":         {"events", 2, "event/10\n", "event/11\n"},
		"status -w":                 {"status", 1, "", "No problems.\n"},
		"logs application/hello -f": {"instances", 1, "", "hello.web.7 | late\n"},
	} {
		t.Run(line, func(t *testing.T) {
			fake := world()
			f := newFixture(t, fake)
			probe, err := client.New(f.entry)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(probe.Close)
			ended, asked := make(chan error, 1), 0
			fake.Change(func(fake *resttest.Fake) {
				fake.Hook = func(fake *resttest.Fake, op string) error {
					if op == c.op {
						asked++
					}
					if asked < c.n {
						return nil
					}
					fake.Hook = nil
					go func() { ended <- f.end() }()
					for { // until it begins nothing new
						for _, err := range probe.Watch(t.Context(), "pods") {
							var p *wire.Problem
							if !errors.As(err, &p) || p.Code == "shutting-down" {
								return nil
							}
						}
					}
				}
			})
			l := f.begin(strings.Fields(line)...)
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			got := l.until("; connecting again\n")
			fake.Change(func(fake *resttest.Fake) {
				fake.State.Problems = nil
				fake.EventList = append(fake.EventList, apiv1.Event{Seq: 11, At: noon})
				i := fake.InstanceList[0]
				i.App, i.Service, i.ID = "hello", "web", "hello.web.7"
				fake.InstanceList = append(fake.InstanceList, i)
				fake.LogText["hello.web.7"] = "late\n"
			})
			f.startAgain()
			got += l.until(c.next)
			if strings.Count(got, "connecting again") != 1 || c.first != "" && strings.Count(got, c.first) != 1 ||
				strings.Count(got, c.next) != 1 {
				t.Errorf("it wrote\n%s", got)
			}
			if code, rest := l.end(); code != 0 || strings.Contains(rest, c.next) {
				t.Errorf("ended with %d, %q", code, rest)
			}
		})
	}
}

// Who follows events and has some of them hears of the rest when the server answers
// again, also of more than a watch begins with.
func TestEventsFollowOverALongAbsence(t *testing.T) {
	fake := world()
	pages := 0
	fake.Hook = func(f *resttest.Fake, op string) error {
		if op != "events" {
			return nil
		}
		if pages++; pages == 2 {
			for seq := uint64(11); seq <= 900; seq++ {
				f.EventList = append(f.EventList, apiv1.Event{Seq: seq, At: noon})
			}
			return wire.Problemf(503, "busy", "", "busy", "busy")
		}
		return nil
	}
	f := newFixture(t, fake)
	l := f.begin("events", "-f", "-o", "name")
	got := l.until("event/900\n")
	for _, seq := range []int{10, 11, 399, 400, 401, 899, 900} {
		if n := strings.Count("\n"+got, fmt.Sprintf("\nevent/%d\n", seq)); n != 1 {
			t.Errorf("event %d was printed %d times", seq, n)
		}
	}
	if code, rest := l.end(); code != 0 || rest != "" {
		t.Errorf("ended with %d, %q", code, rest)
	}
}

func TestStatusWatch(t *testing.T) {
	f := newFixture(t, world())
	s := f.begin("status", "-w")
	s.until("! application guestbook: 1 of 4 instances is not ready\n")
	f.fake.Change(func(f *resttest.Fake) {
		f.State.Problems = nil
		f.ClusterList[0].Connected = true
	})
	s.until("No problems.\n")
	if code, rest := s.end(); code != 0 || rest != "" {
		t.Errorf("ended with %d, %q", code, rest)
	}
}

func TestTop(t *testing.T) {
	fake := world()
	fake.InstanceTops = []rpc.InstanceTop{
		{ID: "guestbook.front.0", Namespace: "default", Cluster: "edge", Worker: "w1", State: wire.Running,
			Used: &rpc.Use{CPU: 37, Memory: 12 << 20, Tasks: 4}, AgeSeconds: 1},
		{ID: "guestbook.front.1", Cluster: "fog", Worker: "fog/w1", State: wire.Running,
			Problem: "cluster fog does not answer", AgeSeconds: 65},
		{ID: "hello.web.0", Cluster: "cloud", State: wire.ClusterScheduled, Problem: "it is on no worker",
			AgeSeconds: -1},
	}
	fake.InstanceTops[0].Reserved.CPU, fake.InstanceTops[0].Reserved.Memory = 100, 64<<20
	fake.InstanceTops[0].Limits.CPU, fake.InstanceTops[0].Limits.Memory = 200, 64<<20
	fake.WorkerTops = []rpc.WorkerTopView{
		{Name: "w1", Cluster: "edge", Used: &rpc.Use{CPU: 1037, Memory: 120 << 20, Tasks: 40},
			Reserved: fake.WorkerList[0].Used, Capacity: fake.WorkerList[0].Capacity, Instances: 3},
		{Name: "w2", Cluster: "edge", Problem: "worker w2, which knows, does not answer",
			Capacity: fake.WorkerList[0].Capacity, AgeSeconds: 9},
		{Cluster: "fog", Problem: "cluster fog does not answer", AgeSeconds: 65},
	}
	fake.ClusterTops = []apiv1.ClusterTop{
		apiv1.SumTop("edge", fake.WorkerTops[:2]),
		{Name: "fog", Problem: "cluster fog keeps its details to itself", Workers: 1,
			Capacity: fake.ClusterList[2].Aggregate.Capacity},
	}
	f := newFixture(t, fake)
	for name, line := range map[string]string{
		"top-instances":      "top instances",
		"top-instances-wide": "top inst -o wide",
		"top-instances-app":  "top instances --app hello",
		"top-instances-json": "top instances --app guestbook -o json",
		"top-workers":        "top workers",
		"top-workers-name":   "top workers -o name",
		"top-clusters":       "top clusters",
		"top-clusters-yaml":  "top clusters -o yaml",
		"top-apps":           "top apps",
		"top-nothing":        "top",
	} {
		args := strings.Fields(line)
		f.golden(name, f.run(args...), args...)
	}
	// Again and again, until it is interrupted; also after nobody answered once.
	n := 0
	fake.Change(func(f *resttest.Fake) {
		f.Hook = func(_ *resttest.Fake, op string) error {
			if n++; op == "top-workers" && n >= 2 && n < 5 {
				return wire.Problemf(503, "busy", "", "busy", "busy")
			}
			return nil
		}
	})
	w := f.begin("top", "workers", "-w")
	w.until("edge/w1")
	w.until("busy: busy; trying again") // which is said once
	if got := w.until("edge/w1"); strings.Contains(got, "trying again") {
		t.Errorf("said again: %s", got)
	}
	if code, _ := w.end(); code != 0 {
		t.Errorf("ended with %d", code)
	}
}

func TestWait(t *testing.T) {
	fake := world()
	f := newFixture(t, fake)
	for name, line := range map[string]string{
		"wait-application":   "wait application/hello",
		"wait-timeout":       "wait app/guestbook --for ready --timeout 2s",
		"wait-service":       "wait service/guestbook.front",
		"wait-instance":      "wait instance/guestbook.front.0 --for running",
		"wait-unreachable":   "wait instance/guestbook.front.1 --timeout 1s",
		"wait-ambiguous":     "wait instance/guestbook.front",
		"wait-prefix":        "wait instance/guestbook.sto --for terminated --timeout 1s",
		"wait-terminated":    "wait instance/guestbook.front.9 --for terminated",
		"wait-no-instance":   "wait instance/guestbook.fronz --for terminated",
		"wait-deleted":       "wait application/gone --for deleted",
		"wait-worker":        "wait worker/edge/w1",
		"wait-worker-away":   "wait worker/edge/w9 --timeout 1s",
		"wait-cluster-away":  "wait cluster/fog --timeout 1s",
		"wait-missing":       "wait application/nothing",
		"wait-bad-condition": "wait application/hello --for running",
		"wait-bad-kind":      "wait namespace/default",
	} {
		args := strings.Fields(line)
		f.golden(name, f.run(args...), args...)
	}
	// What becomes so is noticed.
	f.onSleep = func() { f.fake.Change(func(f *resttest.Fake) { f.Apps[0].Holds = true }) }
	if r := f.run("wait", "application/guestbook", "--timeout", "1m"); r.code != 0 ||
		r.stdout != "application/guestbook is ready\n" {
		t.Errorf("%+v", r)
	}
	if waited := f.now.Sub(noon); waited > time.Minute {
		t.Errorf("after %s", waited)
	}
}
