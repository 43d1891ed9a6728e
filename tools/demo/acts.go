package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/tools/stage"
)

// victim is a worker that runs fronts and is no gateway.
func (d *demo) victim(ctx context.Context) (*stage.Worker, []apiv1.InstanceView, error) {
	c, err := d.root.Client()
	if err != nil {
		return nil, nil, err
	}
	defer c.Close()
	all, err := c.Instances.List(ctx, application, service)
	if err != nil {
		return nil, nil, err
	}
	for _, w := range d.workers {
		var on []apiv1.InstanceView
		for _, i := range fronts(all) {
			if i.Worker == w.ID {
				on = append(on, i)
			}
		}
		if w.Gateway == "" && len(on) > 0 {
			return w, on, nil
		}
	}
	return nil, nil, errors.New("no worker runs fronts without being a gateway")
}

// loseWorker kills a whole worker and watches what its cluster and the visitors
// see of it.
func (d *demo) loseWorker(ctx context.Context) error {
	w, lost, err := d.victim(ctx)
	if err != nil {
		return err
	}
	c, err := d.clusters[w.Cluster].Client()
	if err != nil {
		return err
	}
	defer c.Close()
	d.out.step("killing worker %s: agent, engine and %d instances, all at once (SIGKILL)", w.ID, len(lost))
	kill := time.Now()
	n, err := w.Kill()
	if err != nil {
		return err
	}
	dead := time.Now()
	d.out.step("%d processes of %s are gone, %s after the first signal", n, w.ID, ms(dead.Sub(kill)))

	suspect := func(ctx context.Context) (bool, error) {
		list, err := c.Workers.List(ctx)
		for _, v := range list {
			if v.Name == w.ID && v.Status == "suspect" {
				return true, nil
			}
		}
		return false, err
	}
	if err := within(ctx, "worker "+w.ID+" becomes suspect", suspect); err != nil {
		return err
	}
	seen := time.Since(kill)
	d.out.step("cluster %s: worker %s is suspect (%s after the kill)", w.Cluster, w.ID, ms(seen))
	dropped := func(context.Context) (bool, error) { return d.dropped(w) }
	if err := within(ctx, "all workers drop the routes to "+w.ID, dropped); err != nil {
		return err
	}
	gone := time.Since(kill)
	d.out.step("no worker of the three clusters routes to %s any more (%s after the kill)", w.ID, ms(gone))
	d.out.measured("worker killed → its cluster suspects it", "%s", ms(seen))
	d.out.measured("worker killed → out of the routes of all other workers", "%s", ms(gone))

	for _, old := range lost {
		var now apiv1.InstanceView
		err := within(ctx, "replacement of "+old.ID, func(ctx context.Context) (bool, error) {
			var err error
			now, err = c.Instances.Get(ctx, old.ID)
			return err == nil && now.Incarnation > old.Incarnation && now.Ready && now.Worker != w.ID, err
		})
		if err != nil {
			return err
		}
		d.out.step("%s is ready again, on %s (%s after the kill; replace_after is 3s)", old.ID, now.Worker,
			ms(time.Since(kill)))
	}
	replaced := time.Since(kill)
	d.out.measured("worker killed → all replacements ready", "%s (of which replace_after: 3s)", ms(replaced))
	if err := watch(ctx); err != nil {
		return err
	}
	d.judgeWorker(w, lost, kill, dead, kill.Add(gone))
	return nil
}

// dropped says whether no other worker prefers an endpoint at w any more.
func (d *demo) dropped(w *stage.Worker) (bool, error) {
	for _, other := range d.workers {
		if other == w {
			continue
		}
		routes, err := other.Routes()
		if err != nil {
			return false, err
		}
		for _, r := range routes {
			for _, e := range r.Endpoints {
				if e.Address == w.Address() && !e.Suspect {
					return false, fmt.Errorf("worker %s still routes to %s", other.ID, e.Instance)
				}
			}
		}
	}
	return true, nil
}

// judgeWorker counts what the visitors noticed of the killed worker: from the
// first signal (kill) over the end of its last process (dead) to the moment when
// no route led to it any more (gone).
func (d *demo) judgeWorker(w *stage.Worker, lost []apiv1.InstanceView, kill, dead, gone time.Time) {
	var last, back time.Time
	inFlight, between, after := 0, 0, 0
	for _, r := range d.load.requests() {
		if r.failure == "" {
			if r.worker == w.ID && r.end.After(last) {
				last = r.end
			}
			if r.worker != w.ID && r.end.After(kill) && isOne(lost, r.instance) &&
				(back.IsZero() || r.end.Before(back)) {
				back = r.end
			}
			continue
		}
		switch {
		case !r.end.After(kill):
			continue // nothing to do with it
		case r.start.Before(dead):
			inFlight++
		case r.post && r.start.Before(gone):
			between++
		default:
			after++
		}
		d.out.step("not answered: %s", describe(r, kill))
	}
	t := d.load.count(kill, time.Now())
	d.out.step("%d visitors since the kill; lost: %d in flight at the kill, %d before the routes changed, "+
		"%d after that", t.sent, inFlight, between, after)
	d.out.measured("  last answer from it", "%s", relative(last.Sub(kill)))
	d.out.expect(!back.IsZero(), "no replacement answered a visitor")
	if !back.IsZero() {
		d.out.measured("  first answer from a replacement", "%s", relative(back.Sub(kill)))
	}
	d.out.measured("  visitors in flight at the kill whose answer was lost", "%d", inFlight)
	// Only what may not be sent twice can be lost so: a POST that went over a
	// connection before the news of its end was read.
	d.out.measured("  POSTs lost between the kill and the new routes", "%d", between)
	d.out.measured("  all other visitors refused", "%d of %d (slowest answer %s)", after, t.sent, ms(t.worst))
	d.out.expect(after == 0, "%d requests failed that were neither in flight at the kill nor POSTs before the routes "+
		"had changed", after)
}

func isOne(of []apiv1.InstanceView, id wire.InstanceID) bool {
	return slices.ContainsFunc(of, func(i apiv1.InstanceView) bool { return i.ID == id })
}

// loseRoot kills the root, lets visitors come without one, and starts it again.
func (d *demo) loseRoot(ctx context.Context) error {
	d.out.step("killing the root (SIGKILL): visitors go on coming")
	kill := time.Now()
	if err := d.root.Kill(); err != nil {
		return err
	}
	if err := watch(ctx); err != nil {
		return err
	}
	without := d.load.count(kill, time.Now())
	d.out.step("without a root: %d visitors, %d failed; starting it again with the same command", without.sent,
		len(without.failed))
	begin := time.Now()
	starting, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	if err := d.root.Start(starting); err != nil {
		return err
	}
	answers := time.Since(begin)
	c, err := d.root.Client()
	if err != nil {
		return err
	}
	defer c.Close()
	err = within(ctx, "the restarted root knows everything again", func(ctx context.Context) (bool, error) {
		st, err := c.System.Status(ctx)
		if err != nil {
			return false, err
		}
		for _, v := range st.Clusters {
			if !v.Connected || v.AgeSeconds < 0 {
				return false, fmt.Errorf("cluster %s is not connected", v.Name)
			}
		}
		if len(st.Clusters) != len(clusters) || len(st.Apps) != 1 || !st.Apps[0].Holds {
			return false, errors.New("the application is not ready")
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	whole := time.Since(begin)
	d.out.step("the root answers after %s, all clusters are connected and the application is ready after %s",
		ms(answers), ms(whole))
	if err := watch(ctx); err != nil {
		return err
	}
	t := d.load.count(kill, time.Now())
	for _, r := range t.failed {
		d.out.step("failed: %s", describe(r, kill))
	}
	d.out.measured("root restarted → answers", "%s", ms(answers))
	d.out.measured("root restarted → clusters connected, application ready", "%s", ms(whole))
	d.out.measured("  visitors that noticed its absence or return", "%d of %d (slowest answer %s)", len(t.failed),
		t.sent, ms(t.worst))
	d.out.expect(len(t.failed) == 0, "%d requests failed while the root was away or came back", len(t.failed))
	return nil
}

// relative is a time about an event for people.
func relative(d time.Duration) string {
	if d < 0 {
		return ms(-d) + " before the kill"
	}
	return ms(d) + " after the kill"
}

func describe(r request, since time.Time) string {
	method := http.MethodGet
	if r.post {
		method = http.MethodPost
	}
	return fmt.Sprintf("%s through %s, begun %+.1f ms, ended %+.1f ms: %s", method, r.gateway,
		float64(r.start.Sub(since).Microseconds())/1000, float64(r.end.Sub(since).Microseconds())/1000, r.failure)
}

// balance compares the guestbook with what visitors were told that it took.
func (d *demo) balance(ctx context.Context, begin time.Time) error {
	t := d.load.count(begin, time.Now())
	var book guestbook
	err := within(ctx, "the copy in the cloud has every entry", func(ctx context.Context) (ok bool, err error) {
		book, err = d.read(ctx)
		return err == nil && book.Copied == book.Total, err
	})
	if err != nil {
		return err
	}
	d.out.measured("visitors in all", "%d, %d failed (median %s, 99 of 100 within %s)", t.sent, len(t.failed),
		ms(t.median), ms(t.p99))
	d.out.measured("entries confirmed to visitors, in the store, in its copy", "%d, %d, %d", t.posted, book.Total,
		book.Copied)
	d.out.expect(book.Total >= t.posted, "%d entries were confirmed, the book has %d", t.posted, book.Total)
	// What was lost in flight may have been entered before.
	d.out.expect(book.Total <= t.posts, "%d entries were sent, the book has %d", t.posts, book.Total)
	return nil
}

// guestbook is what a front says about the entries.
type guestbook struct{ Total, Copied int }

func (d *demo) read(ctx context.Context) (b guestbook, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.load.gateways[0]+"/api/entries", nil)
	if err != nil {
		return b, err
	}
	req.Host = host
	resp, err := d.load.client.Do(req)
	if err != nil {
		return b, fmt.Errorf("reading the guestbook: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // only read
	if err := json.NewDecoder(resp.Body).Decode(&b); err != nil {
		return b, fmt.Errorf("reading the guestbook: %w", err)
	}
	return b, nil
}

func (d *demo) summary() {
	d.out.table()
}

// invite says how to use what is left running.
func (d *demo) invite() {
	_, _ = fmt.Fprintf(d.out.w, `It goes on running. In another terminal:
  export VERGE_CONTEXT=%s
  bin/verge get instances
  curl -H 'Host: %s' http://%s/
To stop it and remove everything:
  bin/demo --stop %s
`, d.root.Context, host, d.load.gateways[0], d.stage.Dir)
}
