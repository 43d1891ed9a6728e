package routes

import (
	"slices"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// maxFar bounds what all clusters are told of each other's: beyond it those are
// left out whose certificates are of no use soonest.
const maxFar = 8192

// DeriveRevocations derives what all clusters are told about revoked keys.
func DeriveRevocations(t *state.Tx) {
	want := map[string]*wire.Revocation{}
	for hash, g := range t.Model.Gone {
		want[wire.RevokedByRoot+"."+hash] = &wire.Revocation{V: wire.Version, Until: g.Until}
	}
	for _, name := range records.SortedKeys(t.Model.Clusters) {
		cl := t.Model.Clusters[name]
		if !cl.EverHeard || cl.Inbox.Ack().Inc == "" {
			// Not heard by this process yet: what it said before stays.
			for key, old := range t.Model.Revoked {
				if old.Cluster == name {
					want[key] = old
				}
			}
			continue
		}
		for hash, r := range cl.RevokedKeys {
			want[name+"."+hash] = &r
		}
	}
	if extra := len(want) - maxFar; extra > 0 {
		keys := records.SortedKeys(want)
		slices.SortStableFunc(keys, func(a, b string) int { return want[a].Until.Compare(want[b].Until) })
		for _, key := range keys[:extra] {
			delete(want, key)
		}
	}
	for key, r := range want {
		if old := t.Model.Revoked[key]; old == nil || !records.Same(old, r) {
			t.Revoked[key], t.All = r, true
		}
	}
	for key := range t.Model.Revoked {
		if want[key] == nil {
			t.Revoked[key], t.All = nil, true
		}
	}
}
