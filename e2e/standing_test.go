package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// TestStanding: who makes room for whom, between namespaces too, as far as the operator
// lets them; and what is shown of a namespace's share.
func TestStanding(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, "edge")
	w.run("priority over others", w.priorityOverOthers)
	w.run("shares by weight", w.sharesByWeight)
}

// claims is a descriptor of one service that is in a namespace.
func claims(app, namespace string, replicas int, more string) string {
	return fmt.Sprintf("application: %s\nnamespace: %s\nservices:\n  main:\n    command: [testprogram]\n    replicas: %d\n    stop: {grace: 1s}\n    %s\n", app, namespace, replicas, more)
}

// runs is how many instances of an application run.
func (w *world) runs(app string) (n int) {
	for _, i := range w.root.instances(app) {
		if i.State == wire.Running && i.Ready {
			n++
		}
	}
	return n
}

func (w *world) runNow(t *testing.T, what string, want map[string]int) {
	t.Helper()
	eventually(t, 30*time.Second, what, func() error {
		for app, n := range want {
			if got := w.runs(app); got != n {
				return fmt.Errorf("%d instances of %s run, want %d", got, app, n)
			}
		}
		return nil
	})
}

func (w *world) priorityOverOthers(t *testing.T) {
	w.root.ok("namespace", "create", "theirs")
	w.root.ok("namespace", "create", "ours")
	dev := w.user(w.root, "dev", "--developer", "theirs")
	w.root.apply(claims("low", "theirs", 4, "priority: 900\n    resources: {cpu: 1, memory: 16Mi}")) // all of the worker
	before := w.pids("low")

	high := func(priority, replicas int) string {
		return w.file("high-", claims("high", "ours", replicas, fmt.Sprintf("priority: %d\n    resources: {cpu: 1, memory: 16Mi}", priority)))
	}
	if r := verge(t, w.root.contextFile(), "apply", "--timeout", "3s", high(1000, 1)); r.code != 2 {
		t.Fatalf("without leave it has a place: exit code %d\n%s%s", r.code, r.out, r.err)
	}
	wantEqual(t, "processes of the others", fmt.Sprint(w.pids("low")), fmt.Sprint(before))

	// The operator's word is enough: what waits displaces one.
	w.root.ok("namespace", "standing", "ours", "max-priority=10")
	w.runNow(t, "one has made room", map[string]int{"high": 1, "low": 3})
	stayed := 0
	for id, pid := range w.pids("low") {
		if before[id] == pid {
			stayed++
		}
	}
	wantEqual(t, "processes of the others that go on", stayed, 3)
	waiting := ""
	for id, i := range w.root.instances("low") {
		if i.State != wire.Running {
			waiting = id
		}
	}
	for _, args := range [][]string{{"describe", "instance/" + waiting}, {"explain", "instance/" + waiting}, {"events"}} {
		r := verge(t, dev, args...)
		if !strings.Contains(r.out, "displaced by an instance of another namespace") {
			t.Errorf("verge %s does not say what happened:\n%s%s", strings.Join(args, " "), r.out, r.err)
		}
		if strings.Contains(r.out, "high.main") {
			t.Errorf("verge %s names what is of another namespace:\n%s", strings.Join(args, " "), r.out)
		}
	}
	wantWords(t, "events of the cluster", w.cluster["edge"].ok("events"), "(namespace ours, priority 1000) displaces "+waiting)

	// It is bounded now, by that and by its quota.
	refused(t, "more than it may have", verge(t, w.root.contextFile(), "apply", "--no-wait", w.file("more-", claims("more", "ours", 1, "priority: 11"))),
		"namespace ours may have 10 at most", "verge namespace standing ours weight=1,max-priority=11")
	w.root.ok("namespace", "quota", "ours", "instances=1,vgpus=0.5")
	refused(t, "another that would displace", verge(t, w.root.contextFile(), "apply", "--no-wait", high(10, 2)), "instances: 1 allowed, 1 used, 2 asked for, 1 too much")
	refused(t, "a card", verge(t, w.root.contextFile(), "apply", "--no-wait", w.file("card-", claims("high", "ours", 1, "resources: {vgpus: 1}"))), "vgpus: 0.5 allowed, 0 used, 1 asked for, 0.5 too much")
	w.runNow(t, "nothing was changed", map[string]int{"high": 1, "low": 3})
	w.root.ok("delete", "application/high")
	w.runNow(t, "they are back", map[string]int{"low": 4})
}

// What each gets where both wait is tested in internal/cluster: here the two would come
// to the cluster one after the other, as the root offers them again.
func (w *world) sharesByWeight(t *testing.T) {
	w.root.ok("delete", "application/low")
	w.root.ok("namespace", "create", "three", "--standing", "weight=3")
	w.root.apply(claims("share", "three", 6, "scheduler: drf\n    resources: {cpu: 500m, memory: 16Mi}"))
	eventually(t, 30*time.Second, "the root shows the share of the namespace", func() error {
		text := w.root.ok("describe", "namespace/three")
		for _, words := range []string{"weight=3", "Share of edge:", "75 % of the cpu, by weight 25 %"} {
			if !strings.Contains(text, words) {
				return fmt.Errorf("%q is not in\n%s", words, text)
			}
		}
		return nil
	})
	for id := range w.root.instances("share") {
		wantWords(t, "why it was its turn", w.root.ok("explain", "instance/"+id), "its turn", "namespace three has", "by weight 3")
	}
}
