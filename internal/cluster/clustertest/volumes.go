package clustertest

import (
	"strings"

	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/volumemove"
	"github.com/verge-edge/verge/internal/wire"
)

// work is what an engine does with volumes of an instance that is stopped.
func (f *Worker) work(s *Sim, name string) {
	for key, o := range s.Model.Orders {
		if !strings.HasPrefix(key, name+".") || !o.Stop || o.Volumes == nil {
			continue
		}
		if st, ok := f.Statuses[o.ID]; ok && st.Phase == wire.PhaseRunning {
			s.T.Fatalf("%s works on volumes of what runs", name)
		}
		st := wire.InstanceStatus{V: wire.Version, ID: o.ID, Incarnation: o.Incarnation, Revision: o.Revision,
			Phase: wire.PhaseStopped}
		do := f.Volumes
		if do == nil {
			do = workDone
		}
		if o.Volumes.Do != wire.VolumeHold {
			st.Volumes = do(o.Volumes)
		}
		f.Statuses[o.ID] = st
	}
}

func workDone(w *wire.VolumeWork) *wire.VolumeReport {
	r := &wire.VolumeReport{Key: w.Key, Do: w.Do, Done: true}
	for _, v := range w.Volumes {
		v.Digest, v.Size, v.Files = "abc", 4096, 1
		r.Volumes = append(r.Volumes, v)
	}
	return r
}

// MoveVolumes begins a move, as the backend does, and returns from where to where.
func (s *Sim) MoveVolumes(id string) (from, to string) {
	s.T.Helper()
	i := *s.Instance(id)
	from = i.Worker
	to = map[string]string{"w1": "w2", "w2": "w1"}[from]
	i.Volumes = &wire.VolumeMove{From: from, To: to, Since: s.Now,
		Work: wire.VolumeWork{Key: "k", Do: wire.VolumePack, Volumes: volumemove.Named(&i, s.Model.Shares["app.db"])}}
	s.Model.Insts[id] = &i
	s.Store(state.KeyInstance+id, i)
	return from, to
}
