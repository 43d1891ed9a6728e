package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire"
)

// What fails.
var parts = []string{"instance", "agent", "engine", "worker", "cluster", "root"}

// failureCase is one row of the table.
type failureCase struct {
	how   string
	parts []string
}

func (c failureCase) name() string { return strings.Join(c.parts, " and ") + " " + c.how }

func (c failureCase) has(part string) bool { return slices.Contains(c.parts, part) }

// failureCases are each part alone, all pairs, and all at once.
func failureCases() (out []failureCase) {
	for _, how := range failures {
		out = append(out, failureCase{how, parts})
		for i, a := range parts {
			for _, b := range parts[i+1:] {
				out = append(out, failureCase{how, []string{a, b}})
			}
		}
		for _, a := range parts {
			out = append(out, failureCase{how, []string{a}})
		}
	}
	return out
}

// TestFailures lets every part of a world fail in every way, alone, in pairs and
// all at once, under traffic, and brings it back.
func TestFailures(t *testing.T) {
	needMachines(t)
	t.Parallel() // it waits much more than it computes
	pool := &arenas{owner: t}
	var all outcomes
	t.Run("case", func(t *testing.T) {
		for _, c := range failureCases() {
			t.Run(c.name(), func(t *testing.T) {
				t.Parallel()
				pool.lend(t).failure(c, &all)
			})
		}
	})
	t.Run("nothing is left", func(t *testing.T) {
		for n, a := range pool.free {
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				t.Parallel()
				a.endInOrder(t)
			})
		}
	})
	if testing.Verbose() {
		all.print(t)
	}
}

// hurt is what was done in a case, and how it is undone.
type hurt struct {
	begun, done time.Time
	dead        map[string]bool // instances whose processes were killed
	lift        []func()
}

// where a part that is hurt beside a whole worker is: on another one.
func (c failureCase) where(part string) string {
	if c.has("worker") && part != "worker" {
		return "edge-3"
	}
	return "edge-2"
}

// failure does one case.
func (a *arena) failure(c failureCase, all *outcomes) {
	t := a.t
	before := a.calm(60 * time.Second)
	prefix := strings.ReplaceAll(c.name(), " ", "_")
	front := startLoad(t, a.gateways(), reads)
	store := startLoad(t, a.gateways(), writes(prefix))
	eventually(t, 30*time.Second, "requests are answered", func() error {
		if front.answered() < 10 || store.answered() < 10 {
			return fmt.Errorf("%d and %d so far", front.answered(), store.answered())
		}
		return nil
	})
	r := outcome{c: c}
	tallies := a.tallies()
	h := a.hurt(c)
	a.during(c, h, before, &r)
	lifted := time.Now()
	r.hurtFor = lifted.Sub(h.begun)
	for _, f := range h.lift {
		f()
	}
	after := a.calm(60 * time.Second)
	r.back = time.Since(lifted)
	a.compare(c, h, before, after)
	a.compareTallies(c, h, tallies)
	a.judgeFront(c, h, front.stop(), &r)
	list := store.stop()
	r.writes = acknowledged(t, a.gateways()[0], prefix, list)
	a.judgeMemo()
	for i, s := range a.streams {
		if err := s.beyond(0); err != nil {
			t.Errorf("the stream through %s to the healthy front: %v", a.gateways()[i], err)
		}
	}
	// The next one needs a front on edge-2.
	a.spent = frontAt(after, "edge-2") == ""
	if !t.Failed() {
		all.add(r)
	}
}

// hurt begins the failure of all parts of a case at the same time.
func (a *arena) hurt(c failureCase) *hurt {
	h := &hurt{begun: time.Now(), dead: map[string]bool{}}
	type step struct{ do, undo func() }
	var steps []step
	for _, part := range c.parts {
		do, undo := a.plan(c, part, h)
		steps = append(steps, step{do, undo})
	}
	h.begun = time.Now()
	for _, s := range steps {
		s.do()
	}
	h.done = time.Now()
	for _, s := range slices.Backward(steps) {
		h.lift = append(h.lift, s.undo)
	}
	return h
}

// plan says how a part is made to fail and how that ends. All that is to be
// looked up is looked up now.
func (a *arena) plan(c failureCase, part string, h *hurt) (do, undo func()) {
	node := c.where(part)
	var r running
	switch {
	case part == "root":
		node = "root"
	case part == "cluster":
		node = "edge"
	case part == "instance":
		var id string
		if id, r = a.frontOn(node); c.how == killed {
			h.dead[id] = true
		}
	case part == "worker" && c.how == killed:
		for id := range runningIn(a.t, a.worker[node].dir) {
			h.dead[id] = true
		}
	}
	return a.breakage(part, c.how, node, r)
}

// holdLeast is how long a failure lasts of which nothing is to be seen.
const holdLeast = 2500 * time.Millisecond

// during is what is looked at while parts have failed.
func (a *arena) during(c failureCase, h *hurt, before map[string]instanceState, r *outcome) {
	t := a.t
	// An apply: acknowledged or not, as the root is there or not.
	timeout := 2 * time.Second // nobody may be there
	if !c.has("root") {
		timeout = 20 * time.Second
	}
	err := a.applyMemo(timeout)
	switch {
	case !c.has("root") && err != nil:
		t.Errorf("an apply during the failure: %v", err)
	case !c.has("root"):
		eventually(t, 30*time.Second, "what was applied meanwhile runs", func() error {
			return differs("mark", a.memoRuns(), fmt.Sprint(a.memo))
		})
	}
	lost := c.has("worker") || c.has("agent")
	// Its agent has to notice first.
	lost = lost || c.how == stopped && len(c.parts) == 1 && c.has("engine")
	switch {
	case lost && !c.has("cluster"):
		id := frontAt(before, "edge-2")
		eventually(t, 30*time.Second, "the front that was there runs elsewhere", func() error {
			i, err := a.instance(id)
			if err != nil {
				return err
			}
			if i.Worker == "edge-2" || !i.Ready {
				return fmt.Errorf("it is %s on %s, ready %v", i.State, i.Worker, i.Ready)
			}
			return nil
		})
		i, err := a.instance(id)
		if err != nil {
			t.Fatal(err)
		}
		at := placedAfter(i, h.begun)
		r.replaced = at.Sub(h.begun)
		if r.replaced < arenaReplaceAfter {
			t.Errorf("%s was replaced %s after the failure, replace_after is %s: %+v", id, r.replaced, arenaReplaceAfter, i.History)
		}
	case len(c.parts) == 1 && c.has("cluster") && c.how == killed:
		// What only it may run waits for it; what may run elsewhere is replaced there.
		eventually(t, 30*time.Second, "its instance runs in the other cluster", func() error {
			for id, i := range a.root.instances("arena") {
				if i.Service == "wide" && i.Cluster == "fog" && i.Ready {
					r.replaced = placedAfter(i, h.begun).Sub(h.begun)
					if r.replaced < arenaDeadAfter {
						t.Errorf("%s was made %s after the failure, --cluster-dead-after is %s", id, r.replaced, arenaDeadAfter)
					}
					return nil
				}
			}
			return fmt.Errorf("instances %v", slices.Sorted(maps.Keys(a.root.instances("arena"))))
		})
	}
	least := holdLeast
	if len(c.parts) == 1 && (c.has("root") || c.has("cluster")) && c.how != killed {
		// Long enough for a tier that doubts others to act on it.
		least = 3 * holdLeast
	}
	if rest := least - time.Since(h.begun); rest > 0 {
		throughout(t, rest, "requests go on", func() error { return nil })
	}
}

// frontAt is the front's instance on a worker.
func frontAt(st map[string]instanceState, worker string) string {
	for id, i := range st {
		if i.worker == worker && strings.HasPrefix(id, "arena.front.") {
			return id
		}
	}
	return ""
}

// placedAfter is when an instance was given to a worker again after a time.
func placedAfter(i apiv1.InstanceView, begun time.Time) time.Time {
	for _, step := range i.History {
		if step.To == wire.WorkerScheduled && step.At.After(begun) {
			return step.At
		}
	}
	return time.Time{}
}

// compare holds that only what died was started again.
func (a *arena) compare(c failureCase, h *hurt, before, after map[string]instanceState) {
	for id, was := range before {
		now, ok := after[id]
		if !ok {
			a.t.Errorf("%s is gone", id)
			continue
		}
		if id == "memo.main.0" {
			continue // it was changed
		}
		// What a machine took with it does not run when the machine is back, so
		// there are no two of which the original would stay.
		moved := c.has("worker") && c.how == killed && h.dead[id] && strings.HasPrefix(id, "arena.front.")
		if !moved && (now.worker != was.worker || now.incarnation != was.incarnation) {
			a.t.Errorf("%s was incarnation %d on %s and is incarnation %d on %s", id, was.incarnation, was.worker, now.incarnation, now.worker)
		}
		if !h.dead[id] && now.pid != was.pid {
			a.t.Errorf("%s was pid %d and is pid %d, and nobody killed it", id, was.pid, now.pid)
		}
		if !h.dead[id] && now.restarts != was.restarts {
			a.t.Errorf("%s had %d restarts and has %d, and nobody killed it", id, was.restarts, now.restarts)
		}
	}
}

// tallies are what the root has counted of the application that is hurt and of the
// one that is changed.
func (a *arena) tallies() (out [2]wire.Counters) {
	a.t.Helper()
	for n, app := range []string{"arena", "memo"} {
		out[n] = must[apiv1.AppView](a.t)(a.root.client().Applications.Get(context.Background(), app)).Tally
	}
	return out
}

// compareTallies holds that exactly that was counted what the failure justifies:
// a restart of each instance that died and was started again where it was; one change of
// the memo, and none of the rest. What was replaced since its worker was silent is none.
func (a *arena) compareTallies(c failureCase, h *hurt, was [2]wire.Counters) {
	a.t.Helper()
	// Who died runs again. The front of a worker that is hurt is replaced, whether or
	// not it died and was started again there; wide may be, in the other cluster.
	least, most := uint64(len(h.dead)), uint64(len(h.dead))
	replaced := map[string]bool{}
	for _, part := range c.parts {
		if part == "worker" || part == "agent" || part == "engine" {
			replaced[c.where(part)] = true
		}
	}
	least -= min(least, uint64(len(replaced)))
	most += uint64(len(replaced))
	if c.has("cluster") {
		most++
	}
	eventually(a.t, 30*time.Second, "what was counted is what had to be", func() error {
		now := a.tallies()
		arena, memo := now[0].Since(was[0]), now[1].Since(was[1])
		if arena.Changes != 0 || arena.Restarts < least || arena.Restarts > most {
			return fmt.Errorf("%s, justified are 0 changes and from %d to %d restarts", arena, least, most)
		}
		// A change that was not acknowledged in the case before may have come later.
		if memo.Changes > 2 || memo.Restarts > memo.Changes {
			return fmt.Errorf("%s of an application that was changed once", memo)
		}
		return nil
	})
}

// judgeFront looks for requests that failed and should not have. What was under
// way when a part failed may fail with it. What was sent to a part that fell
// silent, before anybody could know, may hang: until the part is suspect.
func (a *arena) judgeFront(c failureCase, h *hurt, list []sent, r *outcome) {
	r.requests = len(list)
	for _, s := range list {
		if s.err == nil {
			r.slowest = max(r.slowest, s.took)
			continue
		}
		r.failed++
		after := s.at.Sub(h.begun)
		r.dropped = max(r.dropped, after)
		underWay := !s.at.After(h.done) && s.at.Add(s.took).After(h.begun)
		unknowing := s.silent() && (c.how == silent || c.how == stopped) && after > 0 && after < arenaSuspect
		if !underWay && !unknowing && r.failed < 10 {
			a.t.Errorf("a request failed that was begun %s after the failure, after %s: %.200v", after.Round(time.Millisecond), s.took.Round(time.Millisecond), s.err)
		}
	}
}

// judgeMemo holds that the last apply that was acknowledged is in effect. One that was
// not may have come later, and be about to replace it.
func (a *arena) judgeMemo() {
	var n int
	eventually(a.t, 20*time.Second, "the last apply that was acknowledged is in effect", func() error {
		mark := a.memoRuns()
		if _, err := fmt.Sscan(mark, &n); err != nil || n < a.memo {
			return fmt.Errorf("the memo runs with mark %q, %d was acknowledged; its processes: %s", mark, a.memo, a.memoProcesses())
		}
		return nil
	})
	a.memo = max(a.memo, n)
}

// outcome of a case.
type outcome struct {
	c                failureCase
	hurtFor, back    time.Duration
	replaced         time.Duration // 0: nothing was
	dropped          time.Duration // begin of the last request that failed
	requests, failed int
	slowest          time.Duration // that was answered
	writes           int
}

type outcomes struct {
	mu   sync.Mutex
	list []outcome
}

func (l *outcomes) add(r outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, r)
}

func (l *outcomes) print(t *testing.T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.SortFunc(l.list, func(a, b outcome) int { return strings.Compare(a.c.name(), b.c.name()) })
	s := func(d time.Duration) string {
		if d == 0 {
			return "-"
		}
		return fmt.Sprintf("%.2fs", d.Seconds())
	}
	for _, r := range l.list {
		t.Logf("%-34s hurt %s, last failed request begun after %s, replaced after %s, as before %s after its end; %d of %d requests failed, the slowest other took %s; %d writes acknowledged",
			r.c.name(), s(r.hurtFor), s(r.dropped), s(r.replaced), s(r.back), r.failed, r.requests, s(r.slowest), r.writes)
	}
}
