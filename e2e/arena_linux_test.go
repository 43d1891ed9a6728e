package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
)

// An arena is a world in which things fail, with what is watched meanwhile. Each
// node is on a machine of its own:
//
//	root
//	edge    edge-1 (never hurt, gateway), edge-2 (hurt), edge-3 (hurt beside it)
//	fog     fog-1 (never hurt, gateway)
//
// It runs: front, an instance on each worker of edge; store, whose place is on
// edge-2 because there is room for it nowhere else; wide, which may be in either
// cluster and is in edge; memo in fog, which is changed while things fail.
type arena struct {
	*world
	owner   *testing.T
	streams []*stream // to the front on edge-1; they last as long as the arena
	memo    int       // mark that was applied last
	spent   bool      // it is not as it was at its beginning
}

// How long things take in an arena.
const (
	arenaReplaceAfter = time.Second     // of the front
	arenaDeadAfter    = 3 * time.Second // of a cluster
	arenaLambda       = time.Second     // the most between two reports of a worker
	// arenaSuspect is when a worker that was heard just before it fell silent is
	// suspect: 2.5 λ, and a look each second.
	arenaSuspect = arenaLambda*5/2 + time.Second
)

const (
	frontHost = "front.test"
	storeHost = "store.test"
)

func arenaApp(wideIn string) string {
	return fmt.Sprintf(`application: arena
services:
  front:
    command: [testprogram]
    replicas: 3
    replace_after: %s
    restart: {max_restarts: 1000}
    affinity: {cluster: [edge]}
    ports:
      - name: http
        ingress: {host: %s}
    readiness:
      http: {path: /healthz}
      interval: 500ms
      timeout: 1s
      failures: 2
  store:
    command: [testprogram]
    replace_after: 1h
    restart: {max_restarts: 1000}
    resources: {cpu: 5}
    affinity: {cluster: [edge]}
    ports:
      - name: http
        ingress: {host: %s}
    readiness:
      http: {path: /healthz}
  wide:
    command: [testprogram]
    replace_after: 1h
    restart: {max_restarts: 1000}
    resources: {cpu: 3500m}
    affinity: {cluster: [%s], labels: {wide: "yes"}} # where the store need not be
`, arenaReplaceAfter, frontHost, storeHost, wideIn)
}

func memoApp(mark int) string {
	return fmt.Sprintf(`application: memo
services:
  main:
    command: [testprogram]
    env: {MARK: "%d"}
    affinity: {cluster: [fog]}
    stop: {signal: KILL}
`, mark)
}

// newArena makes an arena that ends with owner; t is the test of the moment.
func newArena(owner, t *testing.T) *arena {
	t.Helper()
	w := onMachines(owner)
	w.t = t
	a := &arena{world: w, owner: owner}
	w.startRoot("--cluster-dead-after", arenaDeadAfter.String())
	for _, name := range []string{"edge", "fog"} {
		w.addCluster(name, "--interval", arenaLambda.String())
	}
	for _, name := range []string{"edge", "fog"} {
		w.cluster[name].answers()
	}
	w.addWorker("edge", "edge-1", "--label", "wide=yes")
	w.addWorker("edge", "edge-2", "--cpus", "8")
	w.addWorker("edge", "edge-3", "--label", "wide=yes")
	w.addWorker("fog", "fog-1", "--label", "wide=yes")
	w.allReady()
	w.root.apply(arenaApp("edge"))
	w.root.apply(arenaApp("edge, fog"))
	w.root.apply(memoApp(0))
	for _, gateway := range a.gateways() {
		eventually(t, 10*time.Second, "the gateway "+gateway+" routes", func() error {
			_, err := fetch(gateway, storeHost, "/keys")
			return err
		})
	}
	for _, gateway := range a.gateways() {
		a.streams = append(a.streams, a.streamTo("edge-1", gateway))
	}
	return a
}

// endInOrder ends the arena as an operator would, and looks what is left.
func (a *arena) endInOrder(t *testing.T) {
	t.Helper()
	for _, s := range a.streams {
		s.close() // else its instance would wait for it
	}
	a.world.endInOrder(t, "arena", "memo")
}

// gateways that are never hurt.
func (a *arena) gateways() []string {
	return []string{a.worker["edge-1"].gateway, a.worker["fog-1"].gateway}
}

// streamTo opens a stream to the front on a worker.
func (a *arena) streamTo(worker, gateway string) *stream {
	a.t.Helper()
	want := ""
	for id := range runningIn(a.t, a.worker[worker].dir) {
		if strings.HasPrefix(id, "arena.front.") {
			want = id
		}
	}
	for range 20 {
		s := beginStream(a.owner, gateway, frontHost)
		eventually(a.t, 5*time.Second, "the stream begins", func() error { return s.beyond(0) })
		if s.instance == want {
			return s
		}
		s.close()
	}
	a.t.Fatalf("no stream reaches %q on %s", want, worker)
	return nil
}

// instanceState is what must not change without a reason.
type instanceState struct {
	pid         int
	worker      string
	incarnation int
	restarts    int
}

// state of all instances, by processes and by what the clusters say.
func (a *arena) state() (map[string]instanceState, error) {
	out := map[string]instanceState{}
	for _, c := range a.cluster {
		list, err := c.client().Instances.List(context.Background(), "", "")
		if err != nil {
			return nil, err
		}
		for _, i := range list {
			if !i.Ready {
				return nil, fmt.Errorf("%s is %s and not ready: %s", i.ID, i.State, i.Reason)
			}
			out[i.ID] = instanceState{worker: i.Worker, incarnation: i.Incarnation, restarts: i.Restarts}
		}
	}
	for name, x := range a.worker {
		for _, p := range processesOf(x.dir) {
			id := p.env["VERGE_INSTANCE"]
			if id == "" || filepath.Base(p.args[0]) != "testprogram" {
				continue
			}
			i, ok := out[id]
			if !ok || i.worker != name || i.pid != 0 {
				return nil, fmt.Errorf("%s runs as pid %d on %s; the clusters know %+v", id, p.pid, name, i)
			}
			i.pid = p.pid
			out[id] = i
		}
	}
	for id, i := range out {
		if i.pid == 0 {
			return nil, fmt.Errorf("%s has no process", id)
		}
	}
	return out, nil
}

// calm is the state when everything is as it should be.
func (a *arena) calm(within time.Duration) map[string]instanceState {
	a.t.Helper()
	var st map[string]instanceState
	eventually(a.t, within, "everything is as it should be", func() (err error) {
		if st, err = a.asWanted(); err == nil {
			return nil
		}
		return err
	})
	return st
}

// asWanted is the state if everything is as it should be.
func (a *arena) asWanted() (map[string]instanceState, error) {
	status, err := a.root.client().System.Status(context.Background())
	if err != nil {
		return nil, err
	}
	if len(status.Problems) > 0 {
		return nil, errors.New(strings.Join(status.Problems, "; "))
	}
	for _, c := range a.cluster {
		status, err := c.client().System.Status(context.Background())
		if err != nil {
			return nil, err
		}
		if len(status.Problems) > 0 {
			return nil, fmt.Errorf("%s: %s", c.name, strings.Join(status.Problems, "; "))
		}
	}
	for _, name := range []string{"arena", "memo"} {
		v, err := a.root.client().Applications.Get(context.Background(), name)
		if err != nil {
			return nil, err
		}
		if !v.Holds {
			return nil, errors.New(v.Message)
		}
	}
	st, err := a.state()
	if err != nil {
		return nil, err
	}
	ids := slices.Sorted(maps.Keys(st))
	const want = "[arena.front.0 arena.front.1 arena.front.2 arena.store.0 arena.wide.0 memo.main.0]"
	return st, differs("instances", fmt.Sprint(ids), want)
}

// frontOn is the front's instance on a worker.
func (a *arena) frontOn(worker string) (id string, r running) {
	a.t.Helper()
	for id, r := range runningIn(a.t, a.worker[worker].dir) {
		if strings.HasPrefix(id, "arena.front.") {
			return id, r
		}
	}
	a.t.Fatalf("no front runs on %s", worker)
	return "", running{}
}

// applyMemo sends a new mark for the memo and says whether it was acknowledged.
func (a *arena) applyMemo(within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	err := a.root.applyOnce(ctx, memoApp(a.memo+1))
	if err == nil {
		a.memo++
	}
	return err
}

// memoRuns is the mark that the memo runs with.
func (a *arena) memoRuns() (mark string) {
	for _, p := range processesOf(a.worker["fog-1"].dir) {
		if p.env["VERGE_INSTANCE"] == "memo.main.0" {
			mark = p.env["MARK"]
		}
	}
	return mark
}

// memoProcesses are all processes of the memo, for who wonders which of them counts.
func (a *arena) memoProcesses() string {
	var out []string
	for _, p := range processesOf(a.worker["fog-1"].dir) {
		if p.env["VERGE_INSTANCE"] == "memo.main.0" {
			stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid)) // it may be gone
			out = append(out, fmt.Sprintf("mark %s, %q, %.80s", p.env["MARK"], p.args, stat))
		}
	}
	return strings.Join(out, "; ")
}

// instance of the cluster edge by its own interface, or what is wrong.
func (a *arena) instance(id string) (apiv1.InstanceView, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return a.cluster["edge"].client().Instances.Get(ctx, id)
}

// arenas lends arenas to cases that run at the same time, and makes what is
// missing. One in which a case failed is not lent again.
type arenas struct {
	owner *testing.T
	mu    sync.Mutex
	free  []*arena
}

// lend gives the test an arena until it ends.
func (p *arenas) lend(t *testing.T) *arena {
	t.Helper()
	p.mu.Lock()
	var a *arena
	if n := len(p.free); n > 0 {
		a, p.free = p.free[n-1], p.free[:n-1]
	}
	p.mu.Unlock()
	if a == nil {
		a = newArena(p.owner, t)
	}
	a.t = t
	t.Cleanup(func() {
		if t.Failed() {
			a.dump()
			a.keepLogs()
		}
		if a.spent || t.Failed() {
			a.t = p.owner
			a.end()
			return
		}
		a.t = p.owner
		p.mu.Lock()
		defer p.mu.Unlock()
		p.free = append(p.free, a)
	})
	return a
}

// keepLogs copies what a failed world has written to a folder that stays.
func (w *world) keepLogs() {
	to := filepath.Join(os.TempDir(), "verge-e2e-failed", strings.ReplaceAll(w.t.Name(), "/", "_"))
	logs, _ := filepath.Glob(filepath.Join(w.dir, "*.log"))        // none: nothing was started
	more, _ := filepath.Glob(filepath.Join(w.dir, "*.d", "*.log")) // of engines
	for _, f := range append(logs, more...) {
		b, err := os.ReadFile(f)
		if err == nil {
			err = os.MkdirAll(to, 0o700)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(to, strings.ReplaceAll(strings.TrimPrefix(f, w.dir+"/"), "/", "_")), b, 0o600)
		}
		if err != nil {
			w.t.Logf("keeping %s: %v", f, err)
		}
	}
	w.t.Logf("the logs are kept in %s", to)
}
