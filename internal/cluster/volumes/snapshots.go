package volumes

import (
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
)

// KeySnapshot + namespace/object: wire.Snapshot.
const KeySnapshot = "snapshot."

// NoteSnapshot keeps what was packed of a volume: what is restored must be the same.
func NoteSnapshot(t *state.Tx, i *wire.Instance, s *wire.Share, v wire.VolumeObject, now time.Time) {
	snap := wire.Snapshot{
		V: wire.Version, Namespace: wire.ShareNamespace(s), Object: v.Object, Instance: i.ID, Volume: v.Name,
		Worker: i.Volumes.From,
		Digest: v.Digest, Size: v.Size, Files: v.Files, Taken: now.UTC().Round(0), By: i.Volumes.By,
	}
	Snapshots.Put(t.Rows, snap.Key(), &snap)
}

// Touch is what is to be done with an object.
type Touch int

const (
	// TouchGet says that somebody reads it.
	TouchGet Touch = iota
	// TouchPut says that somebody writes it.
	TouchPut
	// TouchRemove says that somebody removes it.
	TouchRemove
)

// OrdersVolume says whether an order to a worker lets it do something with an object
// that holds what is in a volume.
func OrdersVolume(m *state.Model, worker, namespace, object string, do Touch) bool {
	for key, o := range m.Orders {
		if o.Volumes == nil || o.Spec == nil || wire.OrderNamespace(o) != namespace ||
			!strings.HasPrefix(key, worker+".") {
			continue
		}
		does := do == TouchPut && o.Volumes.Do == wire.VolumePack || do == TouchGet &&
			(o.Volumes.Do == wire.VolumeUnpack || o.Volumes.Do == wire.VolumeRestore)
		if does && slices.ContainsFunc(o.Volumes.Volumes,
			func(v wire.VolumeObject) bool { return v.Object == object }) {
			return true
		}
	}
	return false
}
