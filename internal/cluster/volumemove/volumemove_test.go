package volumemove_test

import (
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/volumemove"
	"github.com/verge-edge/verge/internal/cluster/volumes"
	"github.com/verge-edge/verge/internal/wire"
)

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

// Each step waits for the one before, whoever is away and however often the
// orchestrator is started again; the instance runs once, and where the volume counts.
func TestVolumesMove(t *testing.T) {
	const id = "app.db.0"
	s := clustertest.NewSim(t, "w1", "w2")
	s.Share("db", 1, clustertest.Volume)
	s.Ticks(3, time.Second)
	from, to := s.MoveVolumes(id)
	// Its worker has trouble: it is said, and tried again.
	s.Workers[from].Volumes = notYet("no space left")
	s.Ticks(5, time.Second)
	i := s.Instance(id)
	if i.State != wire.WorkerScheduled || i.Worker != from ||
		!strings.Contains(i.Reason, "worker "+from+" tries it again: no space left") || s.Running("db") != 0 {
		t.Fatalf("%s on %s: %s\n%s", i.State, i.Worker, i.Reason, s.Dump())
	}
	// It is away for an hour: it is waited for.
	s.Workers[from].Linked = false
	s.Ticks(60, time.Minute)
	s.Restart()
	s.Ticks(3, time.Second)
	if i = s.Instance(id); i.Worker != from || !strings.Contains(i.Reason, "waits for worker "+from) ||
		len(s.Workers[to].Statuses) > 0 {
		t.Fatalf("%s on %s: %s\n%s", i.State, i.Worker, i.Reason, s.Dump())
	}
	s.Workers[from].Linked, s.Workers[from].Volumes = true, nil
	s.Workers[to].Volumes = notYet("another volume")
	s.Ticks(3, time.Second)
	i = s.Instance(id)
	if i.Worker != from || i.Pinned != from || i.Volumes.Work.Do != wire.VolumeUnpack ||
		i.Volumes.Work.Volumes[0].Digest != "abc" || !strings.Contains(i.Reason, "another volume") {
		t.Fatalf("%s on %s: %s, %+v", i.State, i.Worker, i.Reason, i.Volumes)
	}
	// Another program meanwhile begins with the cut-over.
	s.Share("db", 1, func(v *api.Service) { clustertest.Volume(v); v.Command = []string{"other"} })
	s.Ticks(3, time.Second)
	s.Restart()
	s.Workers[to].Volumes = nil
	s.Ticks(3, time.Second)
	i = s.Instance(id)
	if i.State != wire.Running || !i.Ready || i.Worker != to || i.Pinned != to || i.Volumes != nil ||
		i.Revision != 2 || s.Running("db") != 1 {
		t.Fatalf("in the end it is %s on %s, pinned to %s: %s\n%s", i.State, i.Worker, i.Pinned, i.Reason, s.Dump())
	}
	if s.Workers[from].Starts != 1 || s.Workers[to].Starts != 1 {
		t.Errorf("%d and %d starts", s.Workers[from].Starts, s.Workers[to].Starts)
	}
}

// A move that cannot come about leaves the instance where its volume is.
func TestVolumesStay(t *testing.T) {
	const id = "app.db.0"
	for name, c := range map[string]func(s *clustertest.Sim, from, to string){
		"cancelled": func(s *clustertest.Sim, _, _ string) {
			tx := s.Model.Begin()
			i := *s.Instance(id)
			next := volumemove.Stay(tx, i, s.Model.Shares["app.db"], "cancelled", s.Now)
			s.Model.Insts[id] = &next
			s.Store(state.KeyInstance+id, next)
		},
		"it can never succeed": func(s *clustertest.Sim, from, to string) {
			s.Workers[map[bool]string{true: from,
				false: to}[s.Instance(id).Volumes.Work.Do == wire.VolumePack]].Volumes = never("the object is too large")
			s.Ticks(3, time.Second)
			if e := s.Instance(id).VolumesEnded; e == nil || e.Key != "k" ||
				!strings.Contains(e.Why, "the object is too large") {
				s.T.Errorf("it ended with %+v", e)
			}
		},
		"the other worker is removed": func(s *clustertest.Sim, _, to string) {
			delete(s.Model.Workers, to)
			delete(s.Disk, state.KeyWorker+to)
			delete(s.Workers, to)
			for key := range s.Model.Orders {
				if strings.HasPrefix(key, to+".") {
					delete(s.Model.Orders, key)
					delete(s.Disk, state.KeyOrder+key)
				}
			}
		},
	} {
		for _, do := range []string{wire.VolumePack, wire.VolumeUnpack} {
			t.Run(name+" at "+do, func(t *testing.T) {
				s := clustertest.NewSim(t, "w1", "w2")
				s.Share("db", 1, clustertest.Volume)
				s.Ticks(3, time.Second)
				from, to := s.MoveVolumes(id)
				at := map[string]string{wire.VolumePack: from, wire.VolumeUnpack: to}[do]
				s.Workers[at].Volumes = notYet("it takes long")
				s.Ticks(3, time.Second)
				if i := s.Instance(id); i.Volumes == nil || i.Volumes.Work.Do != do {
					t.Fatalf("%s: %+v", i.Reason, i.Volumes)
				}
				c(s, from, to)
				s.Ticks(3, time.Second)
				s.Restart()
				s.Ticks(3, time.Second)
				i := s.Instance(id)
				if i.State != wire.Running || !i.Ready || i.Worker != from || i.Pinned != from || i.Volumes != nil ||
					s.Running("db") != 1 || s.Workers[from].Starts != 2 {
					t.Errorf("it is %s on %s, pinned to %s: %s\n%s", i.State, i.Worker, i.Pinned, i.Reason, s.Dump())
				}
				if f := s.Workers[to]; f != nil && len(f.Statuses) > 0 {
					t.Errorf("worker %s has %v", to, f.Statuses)
				}
			})
		}
	}
	// The application is deleted meanwhile: nothing is left but volumes.
	s := clustertest.NewSim(t, "w1", "w2")
	s.Share("db", 1, clustertest.Volume)
	s.Ticks(3, time.Second)
	_, to := s.MoveVolumes(id)
	s.Workers[to].Volumes = notYet("it takes long")
	s.Ticks(3, time.Second)
	s.Unshare("db")
	s.Ticks(5, time.Second)
	if len(s.Model.Insts)+len(s.Model.Orders)+len(s.Workers["w1"].Statuses)+len(s.Workers["w2"].Statuses) != 0 {
		t.Errorf("left over:\n%s", s.Dump())
	}
}

// A snapshot stops the instance and starts it again where it is; so does a return to one.
func TestVolumeSnapshots(t *testing.T) {
	const id = "app.db.0"
	for _, do := range []string{wire.VolumePack, wire.VolumeRestore} {
		s := clustertest.NewSim(t, "w1", "w2")
		s.Share("db", 1, clustertest.Volume)
		s.Ticks(3, time.Second)
		i := *s.Instance(id)
		home := i.Worker
		i.Volumes = &wire.VolumeMove{From: home, Since: s.Now,
			Work: wire.VolumeWork{Key: "k", Do: do, Volumes: []wire.VolumeObject{{Name: "db", Object: "o"}}}}
		s.Model.Insts[id] = &i
		s.Store(state.KeyInstance+id, i)
		s.Workers[home].Volumes = notYet("it takes long")
		s.Ticks(3, time.Second)
		s.Restart()
		s.Ticks(3, time.Second)
		if i := s.Instance(id); i.State != wire.WorkerScheduled || s.Running("db") != 0 ||
			!strings.Contains(i.Reason, "it takes long") {
			t.Fatalf("%s: it is %s: %s\n%s", do, i.State, i.Reason, s.Dump())
		}
		s.Workers[home].Volumes = nil
		why := ""
		if do == wire.VolumeRestore {
			why = "worker " + home + ": there is no such object"
			s.Workers[home].Volumes = never("there is no such object")
		}
		s.Ticks(3, time.Second)
		if e := s.Instance(id).VolumesEnded; e == nil || e.Why != why {
			t.Errorf("%s: it ended with %+v", do, e)
		}
		// Its digest is kept, also when the orchestrator is started again; of what was not
		// made there is none.
		s.Restart()
		if snap := volumes.Snapshots.Rows(s.Model.DB)["default/o"]; (snap != nil) != (do == wire.VolumePack) ||
			snap != nil && (snap.Digest != "abc" || snap.Instance != id || snap.Volume != "db" || snap.Size != 4096) {
			t.Errorf("%s: the snapshot is %+v", do, snap)
		}
		if i := s.Instance(id); i.State != wire.Running || i.Worker != home || i.Pinned != home || i.Volumes != nil ||
			s.Workers[home].Starts != 2 {
			t.Errorf("%s: it is %s on %s: %s\n%s", do, i.State, i.Worker, i.Reason, s.Dump())
		}
	}
}
