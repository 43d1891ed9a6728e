package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/policy/life"
	"github.com/verge-edge/verge/internal/wire"
)

// onTheirOwn is what must be as before after a step, and what must have moved on.
type onTheirOwn struct {
	pids map[string]map[string]int // by worker that no tier reaches from above
	line int                       // of the steady stream
}

// watched looks which workers are on their own now, and what runs there.
func (c *chaos) watched() onTheirOwn {
	w := onTheirOwn{pids: map[string]map[string]int{}}
	c.steady.mu.Lock()
	w.line = c.steady.last
	c.steady.mu.Unlock()
	for name, x := range c.worker {
		if c.hurt(x.inCluster) && !c.hurt(name) {
			w.pids[name] = map[string]int{}
			for id, r := range runningIn(c.t, x.dir) {
				w.pids[name][id] = r.pid
			}
		}
	}
	return w
}

// look holds the invariants of the design, as far as anybody can be asked.
func (c *chaos) look(before onTheirOwn) {
	c.t.Helper()
	if c.t.Failed() {
		c.t.FailNow()
	}
	c.sixth(before)
	c.third(before)
	if c.links {
		c.fourthOnDisk()
	}
	for _, x := range []*tier{c.root, c.cluster["edge"], c.cluster["fog"]} {
		if c.hurt(x.name) {
			continue
		}
		client := x.client()
		ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
		c.asked(ctx, x, client)
		cancel()
		client.Close()
	}
	if c.t.Failed() {
		c.t.FailNow()
	}
}

// asked looks at what a tier says that is well.
func (c *chaos) asked(ctx context.Context, x *tier, client *client.Client) {
	c.t.Helper()
	list, err := client.Instances.List(ctx, "", "")
	if err != nil {
		c.t.Errorf("%s is well and does not list its instances: %v", x.name, err)
		return
	}
	c.second(x, list)
	c.fifth(ctx, x, client, list)
	c.seventh(ctx, x)
	if x == c.root {
		c.first(ctx, client)
		c.fourth(ctx, client, list)
	}
}

// first: what was acknowledged is there.
func (c *chaos) first(ctx context.Context, client *client.Client) {
	c.t.Helper()
	v, err := client.Applications.Get(ctx, "chaos")
	if err != nil {
		c.t.Errorf("invariant 1: an application that was acknowledged: %v", err)
		return
	}
	if n := v.Services[0].Wanted; !c.wish.replicas[n] {
		c.t.Errorf("invariant 1: %d replicas are wanted, what was acknowledged or tried are %v", n, c.wish.replicas)
	}
	v, err = client.Applications.Get(ctx, "extra")
	there := err == nil && !v.Deleting
	if there && !c.extra.mayBe || !there && !c.extra.mayNotBe {
		c.t.Errorf("invariant 1: extra is there: %v (%v); it may be %v, it may not %v", there, err, c.extra.mayBe, c.extra.mayNotBe)
	}
}

// second: an instance is in one state, to which it came by legal steps.
func (c *chaos) second(x *tier, list []apiv1.InstanceView) {
	c.t.Helper()
	seen := map[string]bool{}
	for _, i := range list {
		if seen[i.ID] {
			c.t.Errorf("invariant 2: %s lists %s twice", x.name, i.ID)
		}
		seen[i.ID] = true
		if !slices.Contains(life.States(), i.State) {
			c.t.Errorf("invariant 2: %s says that %s is %q", x.name, i.ID, i.State)
		}
		for n := 1; n < len(i.History); n++ {
			a, b := i.History[n-1], i.History[n]
			if len(i.History) >= life.MaxHistory || a.To == b.To && a.Tier != b.Tier {
				continue // steps were left out; where two tiers meet one is told twice
			}
			if !life.Allowed(a.To, b.To) {
				c.t.Errorf("invariant 2: %s says that %s went from %s to %s: %+v", x.name, i.ID, a.To, b.To, i.History)
			}
		}
	}
}

// third: what runs on a worker runs on, whatever becomes of the tiers above it.
func (c *chaos) third(before onTheirOwn) {
	c.t.Helper()
	for name, pids := range before.pids {
		x := c.worker[name]
		if !c.hurt(x.inCluster) || c.hurt(name) {
			continue // somebody reached it meanwhile, or it was hurt
		}
		if strings.Contains(c.log[len(c.log)-1], " "+name+" ") {
			continue // a part of it was hurt for a moment
		}
		now := runningIn(c.t, x.dir)
		for id, pid := range pids {
			if now[id].pid != pid {
				c.t.Errorf("invariant 3: %s on %s was pid %d and is pid %d, and no tier above could have wanted it", id, name, pid, now[id].pid)
			}
		}
	}
}

// fourth: nothing about a single worker leaves a cluster that does not want it.
func (c *chaos) fourth(ctx context.Context, client *client.Client, list []apiv1.InstanceView) {
	c.t.Helper()
	status, err := client.System.Status(ctx)
	if err != nil {
		c.t.Errorf("the root is well and has no status: %v", err)
		return
	}
	events, err := client.Events.After(ctx, 0, 0)
	if err != nil {
		c.t.Errorf("the root is well and has no events: %v", err)
		return
	}
	for what, v := range map[string]any{"instances": list, "status": status, "events": events} {
		if b, err := json.Marshal(v); err != nil || bytes.Contains(b, []byte(secretWorker)) {
			c.t.Errorf("invariant 4: the root's %s name a worker of fog (%v): %s", what, err, around(b, secretWorker))
		}
	}
}

// fourthOnDisk looks for the worker's name in what the root stores.
func (c *chaos) fourthOnDisk() {
	c.t.Helper()
	err := filepath.WalkDir(c.root.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			if errors.Is(err, fs.ErrNotExist) {
				err = nil // it is being written
			}
			return err
		}
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if bytes.Contains(b, []byte(secretWorker)) {
			c.t.Errorf("invariant 4: the root's %s names a worker of fog: %s", filepath.Base(path), around(b, secretWorker))
		}
		return err
	})
	if err != nil {
		c.t.Error(err)
	}
}

// around is what surrounds a word.
func around(b []byte, word string) string {
	i := bytes.Index(b, []byte(word))
	if i < 0 {
		return ""
	}
	return strconv.QuoteToASCII(string(b[max(0, i-200):min(len(b), i+200)]))
}

// fifth: every decision can be explained.
func (c *chaos) fifth(ctx context.Context, x *tier, client *client.Client, list []apiv1.InstanceView) {
	c.t.Helper()
	list = slices.DeleteFunc(slices.Clone(list), func(i apiv1.InstanceView) bool { return i.State != wire.Running })
	if len(list) == 0 {
		return
	}
	id := list[c.rand.IntN(len(list))].ID
	e, err := client.Instances.Explain(ctx, id)
	var p *wire.Problem
	if errors.As(err, &p) && p.Status == http.StatusNotFound {
		return // it has ended meanwhile
	}
	if err != nil || len(e.Decisions) == 0 {
		c.t.Errorf("invariant 5: %s cannot explain %s: %v, %+v", x.name, id, err, e)
	}
}

// sixth: a connection to a healthy instance goes on.
func (c *chaos) sixth(before onTheirOwn) {
	c.t.Helper()
	eventually(c.t, 5*time.Second, "invariant 6: the stream goes on", func() error { return c.steady.beyond(before.line + 1) })
}

// seventh: who is nobody is refused.
func (c *chaos) seventh(ctx context.Context, x *tier) {
	c.t.Helper()
	// What is not verified here is who answers; that is not the question.
	stranger := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	for _, path := range []string{"/v1/applications", "/v1/instances", "/v1/status"} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+x.api+path, nil)
		if err != nil {
			c.t.Fatal(err)
		}
		resp, err := stranger.Do(req)
		if err != nil {
			c.t.Errorf("%s is well and does not answer a stranger: %v", x.name, err)
			continue
		}
		_ = resp.Body.Close() // nothing is wanted of it
		if resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden {
			c.t.Errorf("invariant 7: %s answers a stranger's GET %s with %s", x.name, path, resp.Status)
		}
	}
}

// tallies: what need not restart did not, and what was changed is what was asked
// for.
func (c *chaos) tallies() {
	c.t.Helper()
	steady, err := c.root.client().Applications.Get(context.Background(), "steady")
	if err != nil || steady.Tally.String() != "0 restarts, 1 change applied" {
		c.t.Errorf("the application that nobody touched has %s (%v)", steady.Tally, err)
	}
	all, err := c.root.client().Applications.Get(context.Background(), "chaos")
	if n := int(all.Tally.Changes); err != nil || n < 1 || n > c.asks {
		c.t.Errorf("%d changes were applied, %d were asked for (%v)", n, c.asks, err)
	}
	status, err := c.root.client().System.Status(context.Background())
	if sum := steady.Tally.Plus(all.Tally); err != nil || status.Tally.Restarts < sum.Restarts || status.Tally.Changes < sum.Changes {
		c.t.Errorf("the status says %s, two applications have %s (%v)", status.Tally, sum, err)
	}
	c.t.Logf("seed %d: %s", c.seed, status.Tally)
}

// mostMemory of a daemon: its own, in a world of a few instances.
const mostMemory = 200 << 20

// eighth: the memory of a role is bounded.
func (c *chaos) eighth() {
	c.t.Helper()
	for _, p := range processesOf(c.dir) {
		if p.env["VERGE_INSTANCE"] != "" {
			continue
		}
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
		if err != nil {
			continue // it has just ended
		}
		for line := range strings.Lines(string(b)) {
			var kib int
			if n, _ := fmt.Sscanf(line, "RssAnon: %d kB", &kib); n == 1 && kib<<10 > mostMemory {
				c.t.Errorf("invariant 8: %s has %d MiB", strings.Join(p.args[:2], " "), kib>>10)
			}
		}
	}
}

// settleDown waits until everything is as it was asked for last, and stays so.
func (c *chaos) settleDown() {
	t := c.t
	t.Helper()
	begin := time.Now()
	for _, x := range c.cluster {
		x.answers()
	}
	c.root.answers()
	// Who cordoned says when it is over.
	eventually(t, 15*time.Second, "edge-2 is no longer cordoned", func() error {
		return c.ask(func(ctx context.Context) error {
			return c.cluster["edge"].client().Workers.Uncordon(ctx, "edge", "edge-2")
		})
	})
	before := c.wish
	eventually(t, 90*time.Second, "what was asked for before holds", func() error { return c.asWished(before) })
	c.say("it holds %s after the end of all trouble", time.Since(begin).Round(time.Millisecond))
	c.look(c.watched())
	// From here on there is no doubt about what is wanted.
	c.wish.lateMarks, c.wish.lateReplicas = map[int]bool{}, map[int]bool{}
	c.apply()
	if n := len(c.wish.marks); n != 1 {
		t.Fatalf("an apply to a world in which all is well was not acknowledged:\n%s", strings.Join(c.log[len(c.log)-1:], ""))
	}
	eventually(t, 60*time.Second, "what was asked for last holds", func() error { return c.asWished(c.wish) })
	throughout(t, time.Second, "what was asked for last holds", func() error { return c.asWished(c.wish) })
	c.look(c.watched())
	c.eighth()
	c.tallies()
	t.Logf("seed %d: %d steps; as wished %s after the end of all trouble", c.seed, len(c.log), time.Since(begin).Round(time.Millisecond))
}

// asWished is nil if exactly what people asked for runs, and every tier knows it.
func (c *chaos) asWished(w wish) error {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	root := c.root.client()
	defer root.Close()
	status, err := root.System.Status(ctx)
	if err != nil {
		return err
	}
	if len(status.Problems) > 0 {
		return errors.New(strings.Join(status.Problems, "; "))
	}
	want := map[string]int{}
	for _, a := range status.Apps {
		if !a.Holds || a.Deleting {
			return fmt.Errorf("%s: deleting %v, %s", a.Name, a.Deleting, a.Message)
		}
		for _, s := range a.Services {
			want[a.Name] += s.Wanted
		}
	}
	known := map[string]int{}
	for _, x := range []*tier{c.root, c.cluster["edge"], c.cluster["fog"]} {
		client := x.client()
		list, err := client.Instances.List(ctx, "", "")
		client.Close()
		if err != nil {
			return err
		}
		for _, i := range list {
			if !i.Ready || i.Draining || i.Unreachable {
				return fmt.Errorf("%s says that %s is %s, ready %v, draining %v", x.name, i.ID, i.State, i.Ready, i.Draining)
			}
			if x != c.root {
				known[i.App]++
			}
		}
	}
	ids, marks, n := map[string]bool{}, map[int]bool{}, map[string]int{}
	for _, p := range instancesIn(c.dir) {
		ids[p.env["VERGE_INSTANCE"]] = true
		n[p.env["VERGE_APP"]]++
		if mark, err := strconv.Atoi(p.env["MARK"]); err == nil {
			marks[mark] = true
		}
	}
	all := 0
	for app, wanted := range want {
		all += wanted
		if n[app] != wanted || known[app] != wanted {
			return fmt.Errorf("%d processes of %s, the clusters know %d, %d are wanted", n[app], app, known[app], wanted)
		}
	}
	if len(ids) != all {
		return fmt.Errorf("%d instances have processes, %d are wanted: %v", len(ids), all, ids)
	}
	if !w.replicas[want["chaos"]] {
		return fmt.Errorf("%d replicas, wished were %v", want["chaos"], w.replicas)
	}
	for mark := range marks {
		if len(marks) > 1 || !w.marks[mark] {
			return fmt.Errorf("marks %v run, wished were %v", marks, w.marks)
		}
	}
	return nil
}
