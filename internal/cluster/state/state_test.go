package state

import (
	"slices"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/wire"
)

func instance(ordinal int) wire.Instance {
	return wire.Instance{V: wire.Version, ID: "shop.web." + string(rune('0'+ordinal)), App: "shop", Service: "web",
		Ordinal: ordinal, State: wire.ClusterScheduled}
}

// What a transaction changes is seen by itself at once, and by others when it is done.
func TestTx(t *testing.T) {
	now := time.Now()
	m := NewModel("edge", true, now)
	tx := m.Begin()
	for _, n := range []int{2, 0, 1} {
		tx.Put(instance(n))
	}
	ids := func(list []*wire.Instance) (out []string) {
		for _, i := range list {
			out = append(out, i.ID)
		}
		return out
	}
	if got := ids(tx.Instances()); !slices.Equal(got, []string{"shop.web.0", "shop.web.1", "shop.web.2"}) ||
		len(m.Insts) != 0 {
		t.Fatalf("%v in the transaction, %d in the model", got, len(m.Insts))
	}
	tx.Done()
	if len(m.Insts) != 3 {
		t.Fatalf("%d in the model", len(m.Insts))
	}

	tx = m.Begin()
	tx.Put(instance(1))
	if groups, err := tx.Encode(); len(groups) != 0 || err != nil {
		t.Errorf("what is stored is stored again: %v, %v", groups, err)
	}
	next := instance(1)
	next.Worker, next.Incarnation = "w1", 1
	next.Leaving = &wire.Placement{}
	tx.Put(next)
	tx.Order("w1", next.ID, &wire.Order{V: wire.Version, ID: next.ID})
	tx.Remove("shop.web.2")
	groups, err := tx.Encode()
	if err != nil || len(groups) != 2 || !tx.Inst("shop.web.1").Leaving.Started.IsZero() ||
		tx.Inst("shop.web.2") != nil {
		t.Fatalf("%v, %v", groups, err)
	}
	var keys []string
	for _, op := range groups[0] {
		keys = append(keys, op.Key)
	}
	if !slices.Equal(keys, []string{KeyInstance + "shop.web.1", KeyOrder + "w1.shop.web.1"}) {
		t.Errorf("an instance and its order are not stored together: %v", keys)
	}
	tx.Done()
	if !m.Leaving["shop.web.1"] || len(m.Insts) != 2 {
		t.Error("what follows from the instances is not in step with them")
	}
}

// A worker's record is stored, and what this process knows of the worker stays.
func TestWorkerRecords(t *testing.T) {
	now := time.Now()
	m := NewModel("edge", true, now)
	m.Site.Labels = map[string]string{"site": "north"}
	put := func(rec *WorkerRecord) {
		tx := m.Begin()
		WorkerTable.Put(tx.Rows, "w1", rec)
		if _, err := tx.Encode(); err != nil {
			t.Fatal(err)
		}
		tx.Done()
	}
	rec := WorkerRecord{V: wire.Version, Info: wire.WorkerInfo{Name: "w1", Labels: map[string]string{"disk": "ssd"}},
		Joined: now}
	put(&rec)
	w := m.Workers["w1"]
	w.Suspect = true
	if w.Labels["site"] != "north" || w.Labels["disk"] != "ssd" {
		t.Errorf("labels %v", w.Labels)
	}
	next := rec
	next.Cordon = &wire.Cordon{}
	put(&next)
	if m.Workers["w1"] != w || !w.Suspect || w.Cordon == nil {
		t.Errorf("%+v", m.Workers["w1"])
	}
	if put(nil); m.Workers["w1"] != nil {
		t.Error("it is still there")
	}
}

func TestLoaded(t *testing.T) {
	m := NewModel("edge", true, time.Now())
	for key, value := range map[string]string{
		KeyInstance + "shop.web.0": `{"v":1,"id":"shop.web.0","leaving":{"worker":"w2"}}`,
		KeyWorker + "w1":           `{"v":1,"info":{"v":1,"name":"w1","gateway":":443"}}`,
		KeyHave:                    `{"inc":"root","n":7}`,
	} {
		if known, err := m.DB.Load(bus.Entry{Key: key, Value: []byte(value)}); !known || err != nil {
			t.Fatal(key, known, err)
		}
	}
	m.Loaded(time.Now())
	if !m.Leaving["shop.web.0"] || m.Workers["w1"] == nil || !m.Workers["w1"].Gateway.May() || m.Have().N != 7 {
		t.Errorf("%v, %+v, %+v", m.Leaving, m.Workers["w1"], m.Have())
	}
}
