package cluster

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
)

// work is what an engine does with volumes of an instance that is stopped.
func (f *fake) work(s *sim, name string) {
	for key, o := range s.m.Orders {
		if !strings.HasPrefix(key, name+".") || !o.Stop || o.Volumes == nil {
			continue
		}
		if st, ok := f.has[o.ID]; ok && st.Phase == wire.PhaseRunning {
			s.t.Fatalf("%s works on volumes of what runs", name)
		}
		st := wire.InstanceStatus{V: wire.Version, ID: o.ID, Incarnation: o.Incarnation, Revision: o.Revision, Phase: wire.PhaseStopped}
		do := f.volumes
		if do == nil {
			do = workDone
		}
		if o.Volumes.Do != wire.VolumeHold {
			st.Volumes = do(o.Volumes)
		}
		f.has[o.ID] = st
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

func never(why string) func(*wire.VolumeWork) *wire.VolumeReport {
	return func(w *wire.VolumeWork) *wire.VolumeReport {
		return &wire.VolumeReport{Key: w.Key, Do: w.Do, Why: why, Final: true}
	}
}

func notYet(why string) func(*wire.VolumeWork) *wire.VolumeReport {
	return func(w *wire.VolumeWork) *wire.VolumeReport {
		return &wire.VolumeReport{Key: w.Key, Do: w.Do, Why: why}
	}
}

// moveVolumesOf begins a move, as the backend does, and returns from where to where.
func (s *sim) moveVolumesOf(id string) (from, to string) {
	s.t.Helper()
	i := *s.inst(id)
	from = i.Worker
	to = map[string]string{"w1": "w2", "w2": "w1"}[from]
	i.Volumes = &wire.VolumeMove{From: from, To: to, Since: s.now, Work: wire.VolumeWork{Key: "k", Do: wire.VolumePack, Volumes: namedVolumes(&i, s.m.Shares["app.db"])}}
	s.m.Insts[id] = &i
	s.store(state.KeyInstance+id, i)
	return from, to
}

// Each step waits for the one before, whoever is away and however often the
// orchestrator is started again; the instance runs once, and where the volume counts.
func TestVolumesMove(t *testing.T) {
	const id = "app.db.0"
	s := newSim(t, "w1", "w2")
	s.share("db", 1, volume)
	s.ticks(3, time.Second)
	from, to := s.moveVolumesOf(id)
	// Its worker has trouble: it is said, and tried again.
	s.fakes[from].volumes = notYet("no space left")
	s.ticks(5, time.Second)
	i := s.inst(id)
	if i.State != wire.WorkerScheduled || i.Worker != from || !strings.Contains(i.Reason, "worker "+from+" tries it again: no space left") || s.running("db") != 0 {
		t.Fatalf("%s on %s: %s\n%s", i.State, i.Worker, i.Reason, s.dump())
	}
	// It is away for an hour: it is waited for.
	s.fakes[from].linked = false
	s.ticks(60, time.Minute)
	s.restart()
	s.ticks(3, time.Second)
	if i = s.inst(id); i.Worker != from || !strings.Contains(i.Reason, "waits for worker "+from) || len(s.fakes[to].has) > 0 {
		t.Fatalf("%s on %s: %s\n%s", i.State, i.Worker, i.Reason, s.dump())
	}
	s.fakes[from].linked, s.fakes[from].volumes = true, nil
	s.fakes[to].volumes = notYet("another volume")
	s.ticks(3, time.Second)
	i = s.inst(id)
	if i.Worker != from || i.Pinned != from || i.Volumes.Work.Do != wire.VolumeUnpack || i.Volumes.Work.Volumes[0].Digest != "abc" || !strings.Contains(i.Reason, "another volume") {
		t.Fatalf("%s on %s: %s, %+v", i.State, i.Worker, i.Reason, i.Volumes)
	}
	// Another program meanwhile begins with the cut-over.
	s.share("db", 1, func(v *api.Service) { volume(v); v.Command = []string{"other"} })
	s.ticks(3, time.Second)
	s.restart()
	s.fakes[to].volumes = nil
	s.ticks(3, time.Second)
	i = s.inst(id)
	if i.State != wire.Running || !i.Ready || i.Worker != to || i.Pinned != to || i.Volumes != nil || i.Revision != 2 || s.running("db") != 1 {
		t.Fatalf("in the end it is %s on %s, pinned to %s: %s\n%s", i.State, i.Worker, i.Pinned, i.Reason, s.dump())
	}
	if s.fakes[from].starts != 1 || s.fakes[to].starts != 1 {
		t.Errorf("%d and %d starts", s.fakes[from].starts, s.fakes[to].starts)
	}
}

// A move that cannot come about leaves the instance where its volume is.
func TestVolumesStay(t *testing.T) {
	const id = "app.db.0"
	for name, c := range map[string]func(s *sim, from, to string){
		"cancelled": func(s *sim, _, _ string) {
			tx := s.m.begin()
			i := *s.inst(id)
			next := tx.volumesStay(i, s.m.Shares["app.db"], "cancelled", s.now)
			s.m.Insts[id] = &next
			s.store(state.KeyInstance+id, next)
		},
		"it can never succeed": func(s *sim, from, to string) {
			s.fakes[map[bool]string{true: from, false: to}[s.inst(id).Volumes.Work.Do == wire.VolumePack]].volumes = never("the object is too large")
			s.ticks(3, time.Second)
			if e := s.inst(id).VolumesEnded; e == nil || e.Key != "k" || !strings.Contains(e.Why, "the object is too large") {
				s.t.Errorf("it ended with %+v", e)
			}
		},
		"the other worker is removed": func(s *sim, _, to string) {
			delete(s.m.Workers, to)
			delete(s.disk, state.KeyWorker+to)
			delete(s.fakes, to)
			for key := range s.m.Orders {
				if strings.HasPrefix(key, to+".") {
					delete(s.m.Orders, key)
					delete(s.disk, state.KeyOrder+key)
				}
			}
		},
	} {
		for _, do := range []string{wire.VolumePack, wire.VolumeUnpack} {
			t.Run(name+" at "+do, func(t *testing.T) {
				s := newSim(t, "w1", "w2")
				s.share("db", 1, volume)
				s.ticks(3, time.Second)
				from, to := s.moveVolumesOf(id)
				at := map[string]string{wire.VolumePack: from, wire.VolumeUnpack: to}[do]
				s.fakes[at].volumes = notYet("it takes long")
				s.ticks(3, time.Second)
				if i := s.inst(id); i.Volumes == nil || i.Volumes.Work.Do != do {
					t.Fatalf("%s: %+v", i.Reason, i.Volumes)
				}
				c(s, from, to)
				s.ticks(3, time.Second)
				s.restart()
				s.ticks(3, time.Second)
				i := s.inst(id)
				if i.State != wire.Running || !i.Ready || i.Worker != from || i.Pinned != from || i.Volumes != nil || s.running("db") != 1 || s.fakes[from].starts != 2 {
					t.Errorf("it is %s on %s, pinned to %s: %s\n%s", i.State, i.Worker, i.Pinned, i.Reason, s.dump())
				}
				if f := s.fakes[to]; f != nil && len(f.has) > 0 {
					t.Errorf("worker %s has %v", to, f.has)
				}
			})
		}
	}
	// The application is deleted meanwhile: nothing is left but volumes.
	s := newSim(t, "w1", "w2")
	s.share("db", 1, volume)
	s.ticks(3, time.Second)
	_, to := s.moveVolumesOf(id)
	s.fakes[to].volumes = notYet("it takes long")
	s.ticks(3, time.Second)
	s.unshare("db")
	s.ticks(5, time.Second)
	if len(s.m.Insts)+len(s.m.Orders)+len(s.fakes["w1"].has)+len(s.fakes["w2"].has) != 0 {
		t.Errorf("left over:\n%s", s.dump())
	}
}

// A snapshot stops the instance and starts it again where it is; so does a return to one.
func TestVolumeSnapshots(t *testing.T) {
	const id = "app.db.0"
	for _, do := range []string{wire.VolumePack, wire.VolumeRestore} {
		s := newSim(t, "w1", "w2")
		s.share("db", 1, volume)
		s.ticks(3, time.Second)
		i := *s.inst(id)
		home := i.Worker
		i.Volumes = &wire.VolumeMove{From: home, Since: s.now, Work: wire.VolumeWork{Key: "k", Do: do, Volumes: []wire.VolumeObject{{Name: "db", Object: "o"}}}}
		s.m.Insts[id] = &i
		s.store(state.KeyInstance+id, i)
		s.fakes[home].volumes = notYet("it takes long")
		s.ticks(3, time.Second)
		s.restart()
		s.ticks(3, time.Second)
		if i := s.inst(id); i.State != wire.WorkerScheduled || s.running("db") != 0 || !strings.Contains(i.Reason, "it takes long") {
			t.Fatalf("%s: it is %s: %s\n%s", do, i.State, i.Reason, s.dump())
		}
		s.fakes[home].volumes = nil
		why := ""
		if do == wire.VolumeRestore {
			why = "worker " + home + ": there is no such object"
			s.fakes[home].volumes = never("there is no such object")
		}
		s.ticks(3, time.Second)
		if e := s.inst(id).VolumesEnded; e == nil || e.Why != why {
			t.Errorf("%s: it ended with %+v", do, e)
		}
		// Its digest is kept, also when the orchestrator is started again; of what was not
		// made there is none.
		s.restart()
		if snap := s.m.snapshots["default/o"]; (snap != nil) != (do == wire.VolumePack) || snap != nil && (snap.Digest != "abc" || snap.Instance != id || snap.Volume != "db" || snap.Size != 4096) {
			t.Errorf("%s: the snapshot is %+v", do, snap)
		}
		if i := s.inst(id); i.State != wire.Running || i.Worker != home || i.Pinned != home || i.Volumes != nil || s.fakes[home].starts != 2 {
			t.Errorf("%s: it is %s on %s: %s\n%s", do, i.State, i.Worker, i.Reason, s.dump())
		}
	}
}

// What cannot come to anything is refused before anything is stopped, and while the
// instance of an application that was removed still ends.
func TestVolumeRefusals(t *testing.T) {
	b, _ := served(t)
	const id = "xapp.web.0"
	ref := wire.VolumeRef{Namespace: "xspace", Instance: id, Name: "data"}
	share := *b.m.Shares["xapp.web"]
	spec := *share.Spec
	spec.Volumes = []api.Volume{{Path: "d", Name: "data"}}
	share.Spec = &spec
	b.m.Shares["xapp.web"] = &share
	i := *b.m.Insts[id]
	i.Worker, i.Pinned, i.State = "xmachine", "xmachine", wire.Running
	b.m.Insts[id] = &i
	refused := func(what string, err error, status int, code string) {
		t.Helper()
		var p *wire.Problem
		if !errors.As(err, &p) || p.Status != status || p.Code != code || p.Remedy == "" {
			t.Errorf("%s: %v", what, err)
		}
	}
	q := wire.VolumeSnapshotRequest{Object: "typo"}
	before := *b.m.Insts[id]
	refused("no such object", b.RestoreVolume(t.Context(), "xsite", "xmachine", ref, q), 404, "no-such-object")
	refused("no such volume", b.RestoreVolume(t.Context(), "xsite", "xmachine", wire.VolumeRef{Namespace: "xspace", Instance: id, Name: "other"}, q), 404, "no-such-volume")
	delete(b.m.Shares, "xapp.web")
	b.m.Workers["w2"] = state.NewWorker(state.WorkerRecord{Info: wire.WorkerInfo{Name: "w2"}}, time.Now())
	refused("move", b.MoveVolumes(t.Context(), "xsite", "xmachine", ref, wire.VolumeMoveRequest{To: "w2"}), 409, "being-removed")
	refused("snapshot", b.SnapshotVolume(t.Context(), "xsite", "xmachine", ref, q), 409, "being-removed")
	refused("restore", b.RestoreVolume(t.Context(), "xsite", "xmachine", ref, q), 409, "being-removed")
	if now := b.m.Insts[id]; now.Volumes != nil || now.State != before.State {
		t.Errorf("it was stopped: %+v", now)
	}
	i.Volumes = &wire.VolumeMove{From: "xmachine", To: "w2", Work: wire.VolumeWork{Key: "k", Do: wire.VolumePack}}
	b.m.Insts[id] = &i
	refused("cancel", b.CancelVolumes(t.Context(), "xsite", "xmachine", ref), 409, "being-removed")
}
