package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/netlease"
	"github.com/verge-edge/verge/internal/cluster/secrets"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/tier/table"
	"github.com/verge-edge/verge/internal/wire"
)

// Bounds of λ towards the root.
const (
	upMin = 500 * time.Millisecond
	upMax = 5 * time.Second
)

// sumEvery is how often what the root is told of all workers is added up where many are
// added up and nothing has changed that a pass would have seen.
const sumEvery = 30 * time.Second

// askTimeout bounds a question to a worker, beyond what it may be held; shorter
// than a root's patience with this cluster, so that it hears who does not answer.
const askTimeout = 2 * time.Second

// lower is the exchange with the root. exchanged is told the outcome of every
// exchange, renew that the root asks for a renewal; both may be nil.
func (c *core) lower(exchanged func(error), renew func()) *exchange.Lower {
	return &exchange.Lower{
		Conn: c.up, Subjects: exchange.ClusterSubjects(), Desired: (*rootDesired)(c),
		Observed: exchange.StoreSource{Store: c.store, Prefix: state.KeyUp},
		Changed:  c.upChanged, Status: c.upStatus, Renew: renew, OnWas: c.onWas, Partial: (*rootDesired)(c).partial,
		OnReply: func(err error) {
			c.onUpReply(err)
			if exchanged != nil {
				exchanged(err)
			}
		},
		Min: upMin, Max: upMax, Answer: c.answer, Log: c.log,
	}
}

func (c *core) onUpReply(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noteRoot(err)
	if err == nil {
		c.refused = nil
		c.upAt = time.Now()
		if !c.m.Recovery.Heard {
			c.m.Recovery.Heard = true
			loop.Poke(c.wake)
		}
		if c.m.Alone {
			loop.Poke(c.wake) // it is not this cluster that is cut off
		}
	} else {
		c.upLost = time.Now()
	}
}

// noteRoot notes whether the root answers, and what was counted when it was lost. The
// mutex is held.
func (c *core) noteRoot(err error) {
	if (err == nil) != (c.upErr == nil) {
		what := "the root answers"
		if err != nil {
			what = "the root does not answer, the site goes on by itself: " + err.Error()
			c.lost = lost{time.Now(), c.m.Counted()}
		}
		c.events.Add(time.Now(), c.m.Tier(), "cluster/"+c.name, what)
		c.log.Info(what)
	}
	c.upErr = err
}

// upStatus is the aggregate, where the root has not heard it yet.
func (c *core) upStatus(full bool) (json.RawMessage, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, stored := time.Now(), c.store.Rev()
	if since := now.Sub(c.sumAt); !full && c.sumTook > 5*time.Millisecond { // all workers are added up for it
		if since < min(10*c.sumTook, upMin) {
			return nil, nil // with the next exchange
		}
		if c.sumSaid && c.sumRev == stored && c.sumPass.Equal(c.passed) && since < sumEvery {
			return nil, nil // nothing was decided or stored since: it is the same
		}
	}
	agg := c.m.aggregate(c.m.Have().Rev, c.areas)
	agg.Trust, agg.Expires, agg.Behind = c.trusts, c.expires, c.m.behind(c.trusts)
	if c.marks != nil {
		agg.Objects = c.marks()
	}
	c.sumAt, c.sumTook, c.sumRev, c.sumPass, c.sumSaid = now, time.Since(now), stored, c.passed, true
	if same := records.Same(c.said, agg); !full && !significant(c.said, agg) && (now.Sub(c.saidAt) < upMax || same) {
		c.sumSaid = same
		return nil, nil
	}
	c.said, c.saidAt = agg, now
	return json.Marshal(agg)
}

// rootDesired is the cluster's copy of what the root wants of it.
type rootDesired core

var _ exchange.DesiredStore = (*rootDesired)(nil)

// Have implements exchange.DesiredStore.
func (d *rootDesired) Have() wire.Rev {
	c := (*core)(d)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.m.Have().Rev
}

// Proof implements exchange.DesiredStore.
func (d *rootDesired) Proof() []byte {
	c := (*core)(d)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.m.Have().Proof
}

// farKeys maps what the root calls its parts to keys of this store.
var farKeys = []exchange.Part{{Prefix: "share.", As: state.KeyShare}, {Prefix: "route.", As: state.KeyFar}, {Prefix: "revoked.", As: state.KeyFarGone}, {Prefix: "secret.", As: secrets.Key}, {Prefix: "lease.", As: netlease.KeyBlocks}, {Prefix: "publish.", As: keyPublish}}

func farParts() (parts []string) {
	for _, p := range farKeys {
		parts = append(parts, p.Prefix)
	}
	return parts
}

// partial says whether a version of the program fetched what is here that did not know all
// parts of it.
func (d *rootDesired) partial() bool {
	c := (*core)(d)
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(farParts(), func(p string) bool { return !slices.Contains(c.m.Have().Parts, p) })
}

// Take implements exchange.DesiredStore. The revision is stored last, so that a
// crash in between leads to the same changes being fetched again.
func (d *rootDesired) Take(ctx context.Context, full bool, changes []wire.Change, to wire.Rev, proof []byte) error {
	c := (*core)(d)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.reload(ctx, time.Now()); err != nil {
		return err
	}
	t := c.m.begin()
	if full { // what is not sent is gone
		forget(state.GivenTable, t)
		forget(state.FarTable, t)
		forget(state.FarGoneTable, t)
		forget(secrets.Given, t)
		forget(publishTable, t)
	}
	for _, ch := range changes {
		if err := c.take(t, ch); err != nil {
			return fmt.Errorf("what the root sent for %s: %w", ch.Key, err)
		}
	}
	has := &state.HaveRecord{Rev: to, Proof: proof, Parts: c.m.Have().Parts}
	if full {
		has.Parts = farParts()
	}
	state.HaveTable.Put(t.Rows, "", has)
	counts := taken(c.m.Given, maps.Collect(state.GivenTable.All(t.Rows)))
	for app, n := range counts {
		t.Tally(app, wire.Tally{Changes: n})
	}
	if _, left, err := c.keeper.Parts(ctx, t); cmp.Or(err, left) != nil {
		return cmp.Or(err, left)
	}
	c.m.effect()
	if len(counts) > 0 {
		loop.Poke(c.upChanged)
	}
	c.revoked.Set(c.m.Revoked())
	c.place()
	loop.Poke(c.wake)
	return nil
}

// take adds one change of the root to t, where it can be acted on.
func (c *core) take(t *tx, ch wire.Change) error {
	for _, p := range farKeys {
		key, ok := strings.CutPrefix(ch.Key, p.Prefix)
		if !ok {
			continue
		}
		switch p.As {
		case secrets.Key:
			return takeChange(secrets.Given, t, key, ch, func(s *wire.SealedSecret) bool {
				err := secrets.Check(s, key)
				if err != nil {
					c.log.Error("a secret cannot be used and is left out", "secret", key, "error", err)
				}
				return err == nil
			})
		case state.KeyShare:
			return takeChange(state.GivenTable, t, key, ch, func(s *wire.Share) bool {
				err := checkShare(s, key)
				if err != nil { // stored, it would fail every pass from now on
					c.log.Error("a share cannot be acted on and is left out", "share", key, "error", err)
				}
				return err == nil
			})
		case netlease.KeyBlocks:
			return netlease.TakeBlocks(t.Tx, ch, c.log)
		case state.KeyFarGone: // unless it was this cluster that said so
			return takeChange(state.FarGoneTable, t, key, ch, func(r *wire.Revocation) bool { return r.Cluster != c.name })
		case keyPublish:
			return takeChange(publishTable, t, key, ch, nil)
		case state.KeyFar:
			return takeChange(state.FarTable, t, key, ch, nil)
		}
	}
	return nil // of a newer root; nothing that this version could do about it
}

// takeChange puts what the root sent, in the form in which it came, if keep is nil or says so;
// else what there was is gone.
func takeChange[T any](in *table.Table[T], t *tx, key string, ch wire.Change, keep func(*T) bool) error {
	if !ch.Deleted {
		v, err := in.PutEncoded(t.Rows, key, ch.Value)
		if err != nil {
			return err
		}
		if keep == nil || keep(v) {
			return nil
		}
	}
	in.Put(t.Rows, key, nil)
	return nil
}

// forget deletes all records of a table.
func forget[T any](in *table.Table[T], t *tx) {
	for key := range in.Rows(t.m.DB) {
		in.Put(t.Rows, key, nil)
	}
}

// answer serves the root's questions, as far as the operator lets details leave.
func (c *core) answer(ctx context.Context, q wire.Ask) (any, error) {
	if q.What == wire.AskHoldings {
		return c.holdings(q.After)
	}
	if q.What == wire.AskPlan { // it keeps details to itself, see becomes
		return c.planShares(ctx, q.Plan, q.Hold(), time.Now())
	}
	c.mu.Lock()
	details := c.m.Details
	c.mu.Unlock()
	if !details {
		return nil, wire.Problemf(403, "kept-private", rest.ContextOf(c.name)+"; or its operator starts it with --share-details", "the cluster does not answer that", "cluster %s keeps its details to itself", c.name)
	}
	switch q.What {
	case "logs":
		return c.logs(ctx, q)
	case "explain":
		return c.explain(ctx, q.Instance)
	case "workers":
		return c.workers(), nil
	case "entries":
		return c.entries(ctx, q.Worker)
	case wire.AskMetrics:
		return c.workerPage(ctx, q.Worker)
	case wire.AskRoute, wire.AskNet:
		return c.routesPage(ctx, q)
	case wire.AskVolumes:
		return c.volumes(ctx, q.Worker)
	case wire.AskScale:
		return c.scaleReport(q.Instance)
	case "top":
		return c.topInstances(ctx, q.Worker, q.Instance), nil
	case "top-workers":
		return c.topWorkers(ctx, q.Worker), nil
	case "exec":
		if q.Exec == nil {
			break
		}
		step := *q.Exec
		step.Owner = "root/" + step.Owner
		return c.exec(ctx, step)
	case wire.AskCordon, wire.AskUncordon:
		if q.Cordon == nil {
			break
		}
		return c.cordon(access.With(ctx, access.Who{Name: "root/" + q.Cordon.By}), q)
	case wire.AskDrain:
		return c.workerDrain(ctx, q.Worker, time.Now())
	}
	return nil, wire.Problemf(400, "unknown-question", "upgrade the cluster", "the cluster cannot answer that", "cluster %s does not know the question %q", c.name, q.What)
}

// logs passes a question for a log on to the worker that has it.
func (c *core) logs(ctx context.Context, q wire.Ask) (wire.LogChunk, error) {
	if q.Former > 0 {
		return c.formerLog(ctx, q)
	}
	var chunk wire.LogChunk
	name, err := c.workerOf(q.Instance, "there is no log yet")
	if err != nil {
		return chunk, err
	}
	return chunk, c.askWorker(ctx, name, q, "the log cannot be read now", &chunk)
}

// workerOf is the worker that an instance is on; title says what it means if it
// is on none.
func (c *core) workerOf(id wire.InstanceID, title string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := c.m.Insts[id]
	switch {
	case i == nil:
		return "", wire.Problemf(404, "no-such-instance", "verge get instances", "there is no such instance", "%s is not in cluster %s", id, c.name)
	case i.Worker == "":
		return "", wire.Problemf(409, "not-placed", "verge describe instance/"+id, title, "%s is %s and on no worker", id, i.State)
	}
	return i.Worker, nil
}

// entries asks a worker for the addresses of services on it.
func (c *core) entries(ctx context.Context, worker string) ([]wire.EntryView, error) {
	c.mu.Lock()
	_, known := c.m.Workers[worker]
	c.mu.Unlock()
	if !known {
		return nil, wire.Problemf(404, "no-such-worker", "verge get workers", "there is no such worker", "%s is not in cluster %s", worker, c.name)
	}
	list := []wire.EntryView{}
	err := c.askWorker(ctx, worker, wire.Ask{What: "entries", Worker: worker}, "the addresses of services there cannot be shown now", &list)
	return list, err
}

// askWorker puts a question to a worker; title says what an away one means.
func (c *core) askWorker(ctx context.Context, name string, q wire.Ask, title string, out any) error {
	ctx, cancel := context.WithTimeout(ctx, q.Hold()+askTimeout)
	defer cancel()
	err := exchange.AskPeer(ctx, c.local, exchange.WorkerSubjects(name), q, out)
	if errors.Is(err, bus.ErrNoResponder) || errors.Is(err, context.DeadlineExceeded) {
		return wire.Problemf(503, "worker-away", "try again when the worker is back: verge get workers", title, "worker %s, which knows, does not answer", name)
	}
	return err
}
