package gateways

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/acme"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/secrets"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/seal"
	"github.com/verge-edge/verge/internal/tier/table"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Acme does what a gateway asks for.
func Acme(ctx context.Context, c *core.Core, worker string, q rpc.ACMERequest, now time.Time) (rpc.ACMEReply, error) {
	return core.View2(c, func(m *state.Model) (rpc.ACMEReply, error) { return answer(ctx, c, m, worker, q, now) })
}

// answer is Acme with the model.
func answer(ctx context.Context, c *core.Core, m *state.Model, worker string, q rpc.ACMERequest,
	now time.Time) (rpc.ACMEReply, error) {
	reply := rpc.ACMEReply{V: wire.Version}
	if err := wire.CheckVersion("the request of a gateway", q.V); err != nil {
		return reply, wire.Problemf(400, "wire-version", "use the same version of verge on both sides",
			"the request cannot be read", "%v", err)
	}
	if err := core.Reload(ctx, c, now); err != nil {
		return reply, acmeUnstored(err)
	}
	w := m.Workers[worker]
	switch {
	case w == nil || !w.Revoked.IsZero() || !w.Gateway.May():
		return reply, wire.Problemf(403, "not-a-gateway", "verge worker allow-gateway "+worker,
			"the operator of cluster "+c.ClusterName+" has not allowed this worker to be a gateway with TLS",
			"%s may not use certificates", worker)
	case secrets.VaultOf(m).Key == nil:
		return reply, acmeUnstored(fmt.Errorf("the cluster has no key to seal with"))
	}
	if err := acme.Check(m, q); err != nil {
		return reply, wire.Problemf(400, "bad-acme-key", "publish the host with tls: acme",
			"the request of a gateway is refused", "%v", err)
	}
	host, why := acme.Forbidden(m, q)
	forbidden := func() error {
		return wire.Problemf(403, "not-to-publish",
			"have it allowed by an administrator: verge namespace standing NAMESPACE hosts=…",
			"no certificate is asked for", "host %s: %s", host, why)
	}
	if why != "" && (q.Op == rpc.ACMELock || q.Op == rpc.ACMEStore) {
		return reply, forbidden()
	}
	var err error
	switch q.Op {
	case rpc.ACMELoad:
		// A certificate that there is goes on to be used.
		if reply.Value, reply.Found, err = acmeValue(ctx, c, q.Key); err == nil && !reply.Found && why != "" {
			err = forbidden()
		}
	case rpc.ACMEStore:
		reply.Found, err = acmeStore(ctx, c, worker, q, now)
	case rpc.ACMEDelete:
		err = acmeDelete(ctx, c, q.Key)
	case rpc.ACMEList:
		for _, r := range acme.Below(m, q.Key) {
			reply.Entries = append(reply.Entries, rpc.ACMEEntry{Key: r.Key, Modified: r.Modified, Size: r.Size})
		}
	case rpc.ACMELock:
		reply.Held, err = acmeLock(c, worker+"/"+q.Owner, q.Key, now)
		reply.Lease = acme.LockLease
	case rpc.ACMEUnlock:
		if l, ok := Memory(m).Locks[q.Key]; ok && l.Owner == worker+"/"+q.Owner {
			delete(Memory(m).Locks, q.Key)
		}
	}
	return reply, err
}

func acmeValue(ctx context.Context, c *core.Core, key string) (value []byte, found bool, err error) {
	if !acme.Readable(c.M, key) {
		return nil, false, nil
	}
	e, err := c.RecordStore.Get(ctx, acme.Key+acme.ID(key))
	if err != nil {
		return nil, false, acmeUnstored(err)
	}
	var r acme.Record
	if err := json.Unmarshal(e.Value, &r); err != nil {
		return nil, false, acmeUnstored(err)
	}
	value, err = secrets.VaultOf(c.M).Key.Open(r.Purpose(), r.Sealed)
	if err != nil {
		return nil, false, acmeUnstored(fmt.Errorf("what is kept of %s cannot be opened: %w", key, err))
	}
	return value, true, nil
}

// acmeStore stores all values of a request, or none; there says that it was none since
// one of them is there already.
func acmeStore(ctx context.Context, c *core.Core, worker string, q rpc.ACMERequest, now time.Time) (there bool,
	err error) {
	keys := records.SortedKeys(q.Values)
	if q.Absent && slices.ContainsFunc(keys, func(key string) bool { return acme.Readable(c.M, key) }) {
		return true, nil
	}
	next := map[string]*acme.Record{}
	t := c.M.Begin()
	for _, key := range keys {
		if records.Among(c.M.Unread, acme.Key+acme.ID(key)) {
			return false, acmeUnstored(fmt.Errorf("what is kept of %s cannot be read, and is not written over", key))
		}
		r := &acme.Record{V: wire.Version, Key: key, Modified: now.Round(0).UTC(), Size: len(q.Values[key]),
			SealKey: secrets.VaultOf(c.M).Key.ID()}
		sealed := *r
		if sealed.Sealed, err = seal.Seal(secrets.VaultOf(c.M).Key.Public(), r.Purpose(), q.Values[key]); err != nil {
			return false, acmeUnstored(err)
		}
		next[acme.ID(key)] = r
		acme.Table.Put(t.Rows, acme.ID(key), &sealed)
	}
	drop, err := acme.MakeRoom(c.M, next)
	if err != nil {
		return false, err
	}
	for _, id := range drop {
		acme.Table.Put(t.Rows, id, nil)
	}
	if err := c.Keeper.Whole(ctx, t); err != nil {
		return false, acmeUnstored(err)
	}
	for _, r := range next {
		if strings.HasSuffix(r.Key, ".crt") {
			c.Logger.Info("a certificate by ACME is kept for the gateways of this cluster", "host",
				path.Base(path.Dir(r.Key)), "from", worker)
		}
	}
	return false, nil
}

func acmeDelete(ctx context.Context, c *core.Core, key string) error {
	for chunk := range slices.Chunk(acme.Below(c.M, key), bus.MaxCommitOps) {
		t := c.M.Begin()
		for _, r := range chunk {
			acme.Table.Put(t.Rows, acme.ID(r.Key), nil)
		}
		if err := c.Keeper.Whole(ctx, t); err != nil {
			return acmeUnstored(err)
		}
	}
	return nil
}

// acmeLock gives a lock to who asks, or its lease again, unless another has it whose
// lease has not ended and who may be a gateway still.
func acmeLock(c *core.Core, owner, name string, now time.Time) (held bool, err error) {
	for key, l := range Memory(c.M).Locks {
		worker, _, _ := strings.Cut(l.Owner, "/")
		if w := c.M.Workers[worker]; !now.Before(l.Until) || w == nil || !w.Revoked.IsZero() || !w.Gateway.May() {
			delete(Memory(c.M).Locks, key)
		}
	}
	l, taken := Memory(c.M).Locks[name]
	switch {
	case taken && l.Owner != owner:
		return false, nil
	case !taken && len(Memory(c.M).Locks) >= acme.MaxLocks:
		return false, wire.Problemf(503, "too-many-locks", "nothing: it is tried again",
			"too many certificates are worked on", "%d at a time", acme.MaxLocks)
	}
	Memory(c.M).Locks[name] = acme.Lock{Owner: owner, Until: now.Add(acme.LockLease)}
	return true, nil
}

func acmeUnstored(err error) error {
	if p, ok := err.(*wire.Problem); ok { //nolint:errorlint // one of ours, as it is
		return p
	}
	return wire.Problemf(507, "not-stored",
		"free some space or repair the disk of the cluster; gateways try again by themselves",
		"what gateways share cannot be read or stored", "%v", err)
}

// Known is what this process knows beside what is stored. The lock of the model guards it.
type Known struct {
	Locks map[string]acme.Lock // by name
}

var memory = table.Remember(&state.Schema, table.MemoryRules[Known]{
	New: func() *Known { return &Known{Locks: map[string]acme.Lock{}} },
})

// Memory is what is known beside the records of m. A rehearsal begins without.
func Memory(m *state.Model) *Known { return memory.Of(m.DB) }
