package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
)

// giveUp gives the volumes of an instance up, as the backend does.
func (s *sim) giveUp(id, worker string) {
	s.t.Helper()
	tx := s.m.begin()
	tx.Now = s.now
	next := tx.giveUpVolumes(*s.inst(id), worker, "ann", s.now)
	s.m.Insts[id] = &next
	s.store(state.KeyInstance+id, next)
	for key, l := range tx.leftVolumes {
		s.store(keyLeftVolumes+key, l)
	}
	records.Merge(s.m.leftVolumes, tx.leftVolumes)
}

// removeWorker forgets a worker with its orders, as verge remove worker does.
func (s *sim) removeWorker(name string) {
	delete(s.m.Workers, name)
	delete(s.disk, state.KeyWorker+name)
	delete(s.fakes, name)
	for key := range s.m.Orders {
		if strings.HasPrefix(key, name+".") {
			delete(s.m.Orders, key)
			delete(s.disk, state.KeyOrder+key)
		}
	}
}

// Who removes a volume that does not count lets its worker have the instance again: also
// where somebody removed it by hand, or the worker is no more. What cannot be stored
// leaves all as it is.
func TestRemovingWhatIsLeft(t *testing.T) {
	store := bus.NewMemStore()
	c := newTestCore(t, store)
	b := backend{&Cluster{core: c}}
	ref := func(name string) wire.VolumeRef {
		return wire.VolumeRef{Namespace: "default", Instance: "app.db.0", Name: name}
	}
	for _, w := range []string{"w1", "gone"} {
		l := &wire.LeftVolumes{V: wire.Version, Worker: w, Namespace: "default", Instance: "app.db.0", Volumes: []string{"a", "b"}, Why: "given up"}
		data, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Put(t.Context(), keyLeftVolumes+l.Key(), data); err != nil {
			t.Fatal(err)
		}
		c.m.leftVolumes[l.Key()] = l
	}
	c.m.Workers["w1"] = &state.Worker{WorkerRecord: state.WorkerRecord{Info: wire.WorkerInfo{Name: "w1"}}}
	there := map[string]bool{"a": true}
	stop, err := c.local.Subscribe(exchange.WorkerSubjects("w1").Ask, func(_ context.Context, m bus.Msg) {
		var q wire.Ask
		a := wire.Answer{V: wire.Version, Data: []byte(`{}`)}
		if err := json.Unmarshal(m.Data, &q); err != nil {
			t.Error(err)
		}
		if !there[q.Volume.Name] {
			a = wire.Answer{V: wire.Version, Problem: wire.Problemf(404, "no-such-volume", "verge volume ls", "there is no such volume", "")}
		}
		delete(there, q.Volume.Name)
		data, err := json.Marshal(a)
		if err == nil {
			err = m.Respond(data)
		}
		if err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	remove := func(worker, name string) error { return b.RemoveVolume(t.Context(), "edge", worker, ref(name)) }
	left := func(worker, name string) bool { return c.m.isLeft(worker, ref(name)) != "" }
	store.FailWrites(errors.New("disk full"))
	if err := remove("gone", "a"); err == nil || !left("gone", "a") {
		t.Errorf("%v", err)
	}
	store.FailWrites(nil)
	for _, q := range []struct{ worker, name string }{{"w1", "a"}, {"w1", "b"}, {"gone", "b"}, {"gone", "a"}} {
		if err := remove(q.worker, q.name); err != nil || left(q.worker, q.name) {
			t.Errorf("%+v: %v", q, err)
		}
	}
	refusedAs(t, "once more", remove("w1", "a"), 404, "no-such-volume")
	refusedAs(t, "once more", remove("gone", "a"), 404, "no-such-worker")
	if list, err := store.List(t.Context(), keyLeftVolumes); err != nil || len(list) > 0 || len(c.m.leftVolumes) > 0 {
		t.Errorf("left: %+v, %v", list, err)
	}
}

// An instance whose volume was given up begins elsewhere, once; its worker that comes
// back ends what it runs of it, and never gets it again before the data is removed.
func TestVolumesThatWereGivenUp(t *testing.T) {
	const id = "app.db.0"
	s := newSim(t, "w1", "w2")
	s.share("db", 1, volume)
	s.ticks(3, time.Second)
	home := s.inst(id).Worker
	other := map[string]string{"w1": "w2", "w2": "w1"}[home]
	s.fakes[home].linked = false
	s.ticks(60, time.Minute)
	if i := s.inst(id); i.Worker != home || i.State != wire.Running {
		t.Fatalf("it is not waited for: %s on %q", i.State, i.Worker)
	}
	s.giveUp(id, home)
	s.restart()
	s.ticks(7, time.Second)
	if i := s.inst(id); i.Worker != other || i.Pinned != other || i.State != wire.Running {
		t.Fatalf("it is %s on %q: %s\n%s", i.State, i.Worker, i.Reason, s.dump())
	}
	// It comes back with what it ran: that ends, and the new one stays.
	s.fakes[home].linked = true
	s.ticks(10, time.Second)
	if i := s.inst(id); i.Worker != other || len(s.fakes[home].has) > 0 || s.running("db") != 1 || s.fakes[other].starts != 1 {
		t.Fatalf("it is %s on %q: %s\n%s", i.State, i.Worker, i.Reason, s.dump())
	}
	if why := s.m.isLeft(home, wire.VolumeRef{Namespace: "default", Instance: id, Name: "db"}); !strings.Contains(why, "given up by ann") {
		t.Errorf("what is on %s is there because %q", home, why)
	}
	// Nor does it get it when the other one is gone, too, whatever is started again.
	s.fakes[other].linked = false
	s.ticks(3, time.Minute)
	s.giveUp(id, other)
	s.restart()
	s.ticks(10, time.Minute)
	if i := s.inst(id); i.Worker != "" || s.fakes[home].starts != 1 {
		t.Fatalf("it is %s on %q: %s\n%s", i.State, i.Worker, i.Reason, s.dump())
	}
	if why := s.inst(id).Reason; !strings.Contains(why, "verge volume rm edge/"+home+"/default/"+id+"/db") || !strings.Contains(why, "given up by ann") {
		t.Errorf("it waits because %q", why)
	}
	// What is in the way is removed.
	key := home + "." + id
	delete(s.m.leftVolumes, key)
	delete(s.disk, keyLeftVolumes+key)
	s.ticks(5, time.Second)
	if i := s.inst(id); i.Worker != home || i.State != wire.Running {
		t.Fatalf("it is %s on %q: %s\n%s", i.State, i.Worker, i.Reason, s.dump())
	}
}

// After a move, and after its worker was removed, the former copy is not taken for the
// present one. A worker that joins again before anybody else had the instance goes on
// with what it has.
func TestFormerVolumesDoNotCount(t *testing.T) {
	const id = "app.db.0"
	ref := wire.VolumeRef{Namespace: "default", Instance: id, Name: "db"}
	s := newSim(t, "w1", "w2")
	s.share("db", 1, volume)
	s.ticks(3, time.Second)
	from, to := s.moveVolumesOf(id)
	s.ticks(5, time.Second)
	if i := s.inst(id); i.Worker != to || !strings.Contains(s.m.isLeft(from, ref), "moved to worker "+to) || s.m.isLeft(to, ref) != "" {
		t.Fatalf("it is on %s; left: %+v", i.Worker, s.m.leftVolumes)
	}
	// The only one that counts is gone with its worker.
	s.removeWorker(to)
	s.ticks(10, time.Second)
	s.restart()
	s.ticks(10, time.Second)
	if i := s.inst(id); i.Worker != "" || s.fakes[from].starts != 1 {
		t.Fatalf("it is %s on %q: %s\n%s", i.State, i.Worker, i.Reason, s.dump())
	}
	// It joins again, with its disk: nobody else had the instance meanwhile.
	s.addWorker(to)
	s.ticks(10, time.Second)
	if i := s.inst(id); i.Worker != to || i.State != wire.Running || i.Former != "" {
		t.Fatalf("it is %s on %q: %s\n%s", i.State, i.Worker, i.Reason, s.dump())
	}
	// Another begins while it is gone: what it has does not count any more.
	s.removeWorker(to)
	s.addWorker("w3")
	s.ticks(10, time.Second)
	if i := s.inst(id); i.Worker != "w3" || s.m.isLeft(to, ref) == "" {
		t.Fatalf("it is on %q; left: %+v", i.Worker, s.m.leftVolumes)
	}
	// Also of an application that was deleted and comes again.
	s.unshare("db")
	s.ticks(5, time.Second)
	s.addWorker(to)
	s.removeWorker("w3")
	s.ticks(3, time.Second)
	s.share("db", 1, volume)
	s.ticks(5, time.Second)
	if i := s.inst(id); i.Worker != "" || !slices.Contains(s.m.begin().shunned(i, nil), to) {
		t.Errorf("it is %s on %q", i.State, i.Worker)
	}
}
