package uplink

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

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/check"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/instances"
	"github.com/verge-edge/verge/internal/cluster/netlease"
	"github.com/verge-edge/verge/internal/cluster/pace"
	"github.com/verge-edge/verge/internal/cluster/report"
	"github.com/verge-edge/verge/internal/cluster/secrets"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/tier/table"
	"github.com/verge-edge/verge/internal/wire"
)

// Bounds of λ towards the root.
const (
	UpMin = 500 * time.Millisecond
	UpMax = 5 * time.Second
)

// SumEvery is how often what the root is told of all workers is added up where many are
// added up and nothing has changed that a pass would have seen.
const SumEvery = 30 * time.Second

// OnUpReply notes how an exchange with the root ended.
func OnUpReply(c *core.Core, err error) {
	core.Do(c, func(m *state.Model) {
		NoteRoot(c, err)
		if err == nil {
			Memory(m).Refused = nil
			Memory(m).UpAt = time.Now()
			if !m.RootHeard {
				m.RootHeard = true
				loop.Poke(c.Wake)
			}
			if m.Alone {
				loop.Poke(c.Wake) // it is not this cluster that is cut off
			}
		} else {
			Memory(m).UpLost = time.Now()
		}
	})
}

// NoteRoot notes whether the root answers, and what was counted when it was lost. The
// caller has the model.
func NoteRoot(c *core.Core, err error) {
	if (err == nil) != (Memory(c.M).UpErr == nil) {
		kind, what := event.ClusterRootBack, "the root answers"
		if err != nil {
			kind = event.ClusterRootLost
			what = "the root does not answer, the site goes on by itself: " + err.Error()
			Memory(c.M).Lost = Lost{At: time.Now(), Was: c.M.Counted()}
		}
		c.EventRing.Note(time.Now(), kind, c.ClusterName, what)
	}
	Memory(c.M).UpErr = err
}

// UpStatus is the aggregate, where the root has not heard it yet.
func UpStatus(c *core.Core, full bool) (json.RawMessage, error) {
	return core.View2(c, func(m *state.Model) (json.RawMessage, error) {
		now, stored := time.Now(), c.RecordStore.Rev()
		if since := now.Sub(Memory(m).SumAt); !full &&
			Memory(m).SumTook > 5*time.Millisecond { // all workers are added up for it
			if since < min(10*Memory(m).SumTook, UpMin) {
				return nil, nil // with the next exchange
			}
			if Memory(m).SumSaid && Memory(m).sumRev == stored &&
				Memory(m).sumPass.Equal(pace.Memory(m).Passed) && since < SumEvery {
				return nil, nil // nothing was decided or stored since: it is the same
			}
		}
		agg := report.Aggregate(m, m.Have().Rev, c.Areas)
		agg.Trust, agg.Expires, agg.Behind = Memory(m).Trusts, Memory(m).Expires, report.Behind(m, Memory(m).Trusts)
		if c.Marks != nil {
			agg.Objects = c.Marks()
		}
		Memory(m).SumAt, Memory(m).SumTook, Memory(m).sumRev, Memory(m).sumPass, Memory(m).SumSaid = now,
			time.Since(now), stored, pace.Memory(m).Passed, true
		if same := records.Same(Memory(m).Said, agg); !full && !report.Significant(Memory(m).Said, agg) &&
			(now.Sub(Memory(m).saidAt) < UpMax || same) {
			Memory(m).SumSaid = same
			return nil, nil
		}
		Memory(m).Said, Memory(m).saidAt = agg, now
		return json.Marshal(agg)
	})
}

// rootDesired is the cluster's copy of what the root wants of it.
type rootDesired struct{ *core.Core }

// FromRoot returns the copy that a cluster has of what its root wants.
func FromRoot(c *core.Core) rootDesired { return rootDesired{c} }

var _ exchange.DesiredStore = rootDesired{}

// Have implements exchange.DesiredStore.
func (d rootDesired) Have() wire.Rev {
	return core.View(d.Core, func(m *state.Model) wire.Rev { return m.Have().Rev })
}

// Proof implements exchange.DesiredStore.
func (d rootDesired) Proof() []byte {
	return core.View(d.Core, func(m *state.Model) []byte { return m.Have().Proof })
}

// farKeys maps what the root calls its parts to keys of this store.
var farKeys = []exchange.Part{{Prefix: wire.DesiredShare, As: state.KeyShare}, {Prefix: wire.DesiredRoute, As: state.KeyFar},
	{Prefix: wire.DesiredRevoked, As: state.KeyFarGone}, {Prefix: wire.DesiredSecret, As: secrets.Key},
	{Prefix: wire.DesiredLease, As: netlease.KeyBlocks}, {Prefix: wire.DesiredPublish, As: state.KeyPublish}}

func farParts() (parts []string) {
	for _, p := range farKeys {
		parts = append(parts, p.Prefix)
	}
	return parts
}

// Partial says whether a version of the program fetched what is here that did not know all
// parts of it.
func (d rootDesired) Partial() bool {
	return core.View(d.Core, func(m *state.Model) bool {
		return slices.ContainsFunc(farParts(), func(p string) bool { return !slices.Contains(m.Have().Parts, p) })
	})
}

// Take implements exchange.DesiredStore. The revision is stored last, so that a
// crash in between leads to the same changes being fetched again.
func (d rootDesired) Take(ctx context.Context, full bool, changes []wire.Change, to wire.Rev, proof []byte) error {
	c := d.Core
	return core.View(c, func(m *state.Model) error {
		if err := core.Reload(ctx, c, time.Now()); err != nil {
			return err
		}
		t := m.Begin()
		if full { // what is not sent is gone
			forget(state.FromRootTable, t)
			forget(state.FarTable, t)
			forget(state.FarGoneTable, t)
			forget(secrets.FromRoot, t)
			forget(state.PublishTable, t)
		}
		for _, ch := range changes {
			if err := take(c, t, ch); err != nil {
				return fmt.Errorf("what the root sent for %s: %w", ch.Key, err)
			}
		}
		has := &state.HaveRecord{Rev: to, Proof: proof, Parts: m.Have().Parts}
		if full {
			has.Parts = farParts()
		}
		state.HaveTable.Put(t.Rows, "", has)
		counts := instances.Taken(m.FromRoot, maps.Collect(state.FromRootTable.All(t.Rows)))
		for app, n := range counts {
			t.Count(app, wire.Counters{Changes: n})
		}
		if _, left, err := c.Keeper.Parts(ctx, t); cmp.Or(err, left) != nil {
			return cmp.Or(err, left)
		}
		if len(counts) > 0 {
			loop.Poke(c.UpChanged)
		}
		c.Revoked.Set(m.Revoked())
		core.Place(c)
		loop.Poke(c.Wake)
		return nil
	})
}

// take adds one change of the root to t, where it can be acted on.
func take(c *core.Core, t *state.Tx, ch wire.Change) error {
	for _, p := range farKeys {
		key, ok := strings.CutPrefix(ch.Key, p.Prefix)
		if !ok {
			continue
		}
		switch p.As {
		case secrets.Key:
			return takeChange(secrets.FromRoot, t, key, ch, func(s *wire.SealedSecret) bool {
				err := secrets.Check(s, key)
				if err != nil {
					c.Logger.Error("a secret cannot be used and is left out", "secret", key, "error", err)
				}
				return err == nil
			})
		case state.KeyShare:
			return takeChange(state.FromRootTable, t, key, ch, func(s *wire.Share) bool {
				err := check.Share(s, key)
				if err != nil { // stored, it would fail every pass from now on
					c.Logger.Error("a share cannot be acted on and is left out", "share", key, "error", err)
				}
				return err == nil
			})
		case netlease.KeyBlocks:
			return netlease.TakeBlocks(t, ch, c.Logger)
		case state.KeyFarGone: // unless it was this cluster that said so
			return takeChange(state.FarGoneTable, t, key, ch,
				func(r *wire.Revocation) bool { return r.Cluster != c.ClusterName })
		case state.KeyPublish:
			return takeChange(state.PublishTable, t, key, ch, nil)
		case state.KeyFar:
			return takeChange(state.FarTable, t, key, ch, nil)
		}
	}
	return nil // of a newer root; nothing that this version could do about it
}

// takeChange puts what the root sent, in the form in which it came, if keep is nil or says so;
// else what there was is gone.
func takeChange[T any](in *table.Table[T], t *state.Tx, key string, ch wire.Change, keep func(*T) bool) error {
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
func forget[T any](in *table.Table[T], t *state.Tx) {
	for key := range in.Rows(t.Model.DB) {
		in.Put(t.Rows, key, nil)
	}
}

// Known is what this process knows beside what is stored. The lock of the model guards it.
type Known struct {
	Said   wire.Aggregate // what the root heard last
	saidAt time.Time
	// SumAt is when that was added up last, whether it was said or not, and SumTook how long
	// it took; sumRev is the revision of the store then, and sumPass the last pass.
	SumAt   time.Time
	SumTook time.Duration
	sumRev  uint64
	sumPass time.Time
	SumSaid bool          // the root knows what came of it
	UpErr   error         // of the last exchange with the root
	UpAt    time.Time     // of the last that worked
	UpLost  time.Time     // of the last that failed, or that found no link
	Refused *wire.Problem // why the root does not want this cluster any more; nil: it does
	Expires time.Time     // when the certificate of its authority does
	Trusts  string        // the root authorities that this cluster trusts, by name
	Signs   string        // the key that it signs with, by name
	Lost    Lost          // when the root was; when this process started, if it was not
}

var memory = table.Remember(&state.Schema, table.MemoryRules[Known]{})

// Memory is what is known beside the records of m. A rehearsal begins without.
func Memory(m *state.Model) *Known { return memory.Of(m.DB) }

// errLinkDown: the link to the root has ended, and no exchange has failed for that yet.
var errLinkDown = errors.New("the link to it is down")

// RootAway is why the root cannot be reached, nil if it can: what the last exchange says,
// unless the link has ended since. The caller has the model.
func RootAway(c *core.Core) error {
	if Memory(c.M).UpErr != nil {
		return Memory(c.M).UpErr
	}
	if up, _ := c.Up.Connected(); !up {
		return errLinkDown
	}
	return nil
}

// Lost is when the root was lost, and what was counted until then.
type Lost struct {
	At  time.Time
	Was wire.Counters
}

// SinceAway is what was counted since.
func SinceAway(c *core.Core) *apiv1.CountersSince {
	return &apiv1.CountersSince{At: Memory(c.M).Lost.At, Counters: c.M.Counted().Since(Memory(c.M).Lost.Was)}
}
