package exchange

import (
	"context"
	"crypto/hmac"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"sort"
	"strings"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/wire"
)

// pageBytes bounds the changes in one message, well below wire.MaxMessageBytes
// so that a single large value still fits beside it.
const pageBytes = 512 << 10

// Part maps keys of a store to keys of a peer's desired state: what is stored
// under Prefix is known to the peer under As.
type Part struct {
	Prefix string
	As     string
}

// Desired serves the desired state of one peer out of a store.
type Desired struct {
	Store bus.Store
	Parts []Part
	// Prove makes the proof of a revision for this peer; nil: it gets none.
	Prove func(wire.Rev) []byte

	packs *packs // nil: nothing is kept of what is packed
}

func (d Desired) prefixes() []string {
	p := make([]string, len(d.Parts))
	for i, part := range d.Parts {
		p[i] = part.Prefix
	}
	return p
}

// Rev is the current revision of the peer's desired state.
func (d Desired) Rev() wire.Rev {
	n := d.Store.Rev(d.prefixes()...)
	if n == 0 {
		// A peer without any desired state still has to notice a restored store.
		if t := d.Store.Timeline(); len(t) > 0 {
			return wire.Rev{Inc: t[0].ID}
		}
		return wire.Rev{}
	}
	return d.Store.Timeline().At(n)
}

// Proof of a revision for this peer, nil where it gets none.
func (d Desired) Proof(r wire.Rev) []byte {
	if d.Prove == nil || r.IsZero() {
		return nil
	}
	return d.Prove(r)
}

// Ahead reports whether the peer was told a revision that this store has never been
// at, so that the store is an older copy of one that went on. The peer has to prove
// that: what it says could otherwise make the upper side doubt its own state. from is
// the era in which this store may have begun to differ.
func (d Desired) Ahead(have wire.Rev, proof []byte) (from wire.Era, ahead bool) {
	from, ahead = d.Store.Timeline().Ahead(have, d.Store.Rev())
	if !ahead || len(proof) == 0 || !hmac.Equal(proof, d.Proof(have)) {
		return wire.Era{}, false
	}
	return from, true
}

// Fetch answers one page of what changed since f.Since. Pages are in the order of
// revisions and each leads to the next, so a state that moves on meanwhile adds
// to the last page and makes none of them stale.
func (d Desired) Fetch(ctx context.Context, f wire.Fetch) (wire.FetchReply, error) {
	now := d.Rev()
	since := f.Since
	if !f.At.IsZero() {
		since = f.At // the pages before led there
	}
	entries, full, err := d.changes(ctx, since)
	if err != nil {
		return wire.FetchReply{}, err
	}
	if full && !f.At.IsZero() {
		// More was deleted meanwhile than is remembered.
		return wire.FetchReply{V: wire.Version, To: now, Moved: true}, nil
	}
	reply, err := d.page(f, entries, full, now)
	reply.Proof = d.Proof(reply.To)
	return reply, err
}

// page is as much of entries as fits into a message.
func (d Desired) page(f wire.Fetch, entries []bus.Entry, full bool, now wire.Rev) (reply wire.FetchReply, err error) {
	// What was written while this was read may be here in part only: it is left
	// to the next page, which there then is.
	reply = wire.FetchReply{V: wire.Version, Full: full, To: now, More: d.Rev() != now}
	size := 0
	for i, e := range entries {
		if e.Rev > now.N {
			break
		}
		c := wire.Change{Key: e.Key, Value: json.RawMessage(e.Value), Deleted: e.Deleted}
		bytes := len(e.Value)
		if f.Unpacks && bytes >= packFrom {
			if c.Packed, err = d.packs.of(e); err != nil {
				return wire.FetchReply{}, fmt.Errorf("sending %s: %w", e.Key, err)
			}
			c.Value, bytes = nil, base64.StdEncoding.EncodedLen(len(c.Packed))
		}
		if size > 0 && size+bytes > pageBytes {
			reply.More = true
			reply.To = d.Store.Timeline().At(entries[i-1].Rev)
			break
		}
		size += len(e.Key) + bytes + 16
		reply.Changes = append(reply.Changes, c)
	}
	return reply, nil
}

// changes returns what the peer must take over, under the peer's keys and
// oldest first; full where that is everything there is.
func (d Desired) changes(ctx context.Context, since wire.Rev) (entries []bus.Entry, full bool, err error) {
	full = true
	if !since.IsZero() && d.Store.Timeline().Known(since, d.Store.Rev()) {
		list, ok, err := d.Store.Changes(ctx, since.N, d.prefixes()...)
		if err != nil {
			return nil, false, fmt.Errorf("reading changes since %s: %w", since, err)
		}
		if ok {
			entries, full = list, false
		}
	}
	if full {
		for _, p := range d.Parts {
			list, err := d.Store.List(ctx, p.Prefix)
			if err != nil {
				return nil, false, fmt.Errorf("listing %s: %w", p.Prefix, err)
			}
			entries = append(entries, list...)
		}
	}
	for i := range entries {
		for _, p := range d.Parts {
			if rest, ok := strings.CutPrefix(entries[i].Key, p.Prefix); ok {
				entries[i].Key = p.As + rest
				break
			}
		}
	}
	sort.Slice(entries, func(i, j int) bool { return entries[i].Rev < entries[j].Rev })
	return entries, full, nil
}
