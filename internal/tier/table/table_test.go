package table

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/records"
)

// The kinds of a tier in these tests.
type (
	job struct {
		V    int     `json:"v"`
		Runs int     `json:"runs,omitempty"`
		Load float64 `json:"load,omitempty"` // NaN cannot be encoded
	}
	instance struct {
		Worker string  `json:"worker"`
		Load   float64 `json:"load,omitempty"`
	}
	secret struct {
		Rev   int    `json:"rev"`
		Value string `json:"value,omitempty"`
	}
)

type world struct {
	schema    Schema
	jobs      *Table[job]
	instances *Table[instance]
	orders    *Table[instance]
	whys      *Table[instance]
	secrets   *Table[secret]
	count     *Table[int]
	volumes   *Table[instance] // added last, stored first
	routes    *Table[job]      // added first, stored after what they are derived from
}

func newWorld() *world {
	w := &world{}
	byInstance := func(key string, _ *instance) string { return key }
	w.routes = Add(&w.schema, records.Kind{Prefix: "route."}, Rules[job]{Stage: Derived})
	w.jobs = Add(&w.schema, records.Kind{Prefix: "job."}, Rules[job]{
		Leads: func(key string) string { return key + "." },
	})
	w.instances = Add(&w.schema, records.Kind{Prefix: "inst."}, Rules[instance]{Group: byInstance})
	w.whys = Add(&w.schema, records.Kind{Prefix: "why.", Fate: records.Aside}, Rules[instance]{Group: byInstance, Cold: true})
	w.orders = Add(&w.schema, records.Kind{Prefix: "to.", Fate: records.Again}, Rules[instance]{Group: func(key string, _ *instance) string {
		_, id, _ := strings.Cut(key, ".")
		return id
	}})
	w.secrets = Add(&w.schema, records.Kind{Prefix: "in"}, Rules[secret]{Keep: func(s *secret) *secret { return &secret{Rev: s.Rev} }})
	w.count = Add(&w.schema, records.Kind{Prefix: "count"}, Rules[int]{Single: true, Essential: true, Stage: Last})
	w.volumes = Add(&w.schema, records.Kind{Prefix: "vol."}, Rules[instance]{Stage: First})
	return w
}

// stored applies groups to entries, as a store would.
func stored(t *testing.T, entries map[string]string, groups [][]bus.Op) {
	t.Helper()
	for _, g := range groups {
		for _, op := range g {
			if op.Delete {
				delete(entries, op.Key)
			} else {
				entries[op.Key] = string(op.Value)
			}
		}
	}
}

func keysOf(groups [][]bus.Op) (out []string) {
	for _, g := range groups {
		var keys []string
		for _, op := range g {
			keys = append(keys, op.Key)
		}
		out = append(out, strings.Join(keys, "+"))
	}
	return out
}

// All that there is to a new kind of records is to add it.
func TestAddAKind(t *testing.T) {
	w := newWorld()

	type volume struct {
		Size int `json:"size"`
	}
	snapshots := Add[volume](&w.schema, records.Kind{Prefix: "snap.", Fate: records.Aside, Drop: "the snapshot is forgotten"})

	db, entries := w.schema.New(), map[string]string{}
	tx := db.Begin()
	snapshots.Put(tx, "a", &volume{1})
	snapshots.Put(tx, "b", &volume{2})
	if got := snapshots.Get(tx, "a"); got == nil || got.Size != 1 || len(snapshots.Rows(db)) != 0 {
		t.Fatalf("before Done: %v in the transaction, %d in the DB", got, len(snapshots.Rows(db)))
	}
	groups, err := tx.Encode()
	if err != nil {
		t.Fatal(err)
	}
	stored(t, entries, groups)
	tx.Done()

	again := w.schema.New()
	for key, value := range entries {
		if known, err := again.Load(bus.Entry{Key: key, Value: []byte(value)}); !known || err != nil {
			t.Fatal(key, known, err)
		}
	}
	same := func(a, b *volume) bool { return *a == *b }
	if !maps.EqualFunc(snapshots.Rows(again), snapshots.Rows(db), same) || len(snapshots.Rows(db)) != 2 {
		t.Errorf("loaded %v, stored %v", snapshots.Rows(again), snapshots.Rows(db))
	}
	if k := records.KindOf("snap.a", w.schema.Kinds()); k.Drop != "the snapshot is forgotten" || w.schema.Fate("snap.a") != records.Aside {
		t.Errorf("%+v", k)
	}
	rehearsal := again.Clone()
	tx = rehearsal.Begin()
	snapshots.Put(tx, "a", nil)
	tx.Done()
	if len(snapshots.Rows(rehearsal)) != 1 || len(snapshots.Rows(again)) != 2 {
		t.Error("a clone and what it was made of change together")
	}
}

func TestPutOfTheSameIsNoChange(t *testing.T) {
	w := newWorld()
	db := w.schema.New()
	tx := db.Begin()
	w.jobs.Put(tx, "a", &job{Runs: 1})
	w.jobs.Put(tx, "none", nil)
	tx.Done()

	tx = db.Begin()
	w.jobs.Put(tx, "a", &job{Runs: 2})
	w.jobs.Put(tx, "a", &job{Runs: 1})
	w.jobs.Put(tx, "b", &job{})
	w.jobs.Put(tx, "b", nil)
	if groups, err := tx.Encode(); len(groups) != 0 || err != nil || tx.Len() != 0 {
		t.Errorf("%v, %v", keysOf(groups), err)
	}
	w.jobs.Put(tx, "a", nil)
	if n := len(maps.Collect(w.jobs.All(tx))); n != 0 || w.jobs.Get(tx, "a") != nil || tx.Len() != 1 {
		t.Error("what is deleted is there:", n)
	}
}

func TestGroupsAndTheirOrder(t *testing.T) {
	w := newWorld()
	tx := w.schema.New().Begin()
	w.count.Put(tx, "", new(int))
	w.routes.Put(tx, "a", &job{})
	w.orders.Put(tx, "w1.shop.web.1", &instance{})
	w.orders.Put(tx, "w1.shop.web.0", &instance{})
	w.whys.Put(tx, "shop.web.1", &instance{})
	w.instances.Put(tx, "shop.web.1", &instance{})
	w.jobs.Put(tx, "b", &job{})
	w.jobs.Put(tx, "a", &job{})
	w.volumes.Put(tx, "v", &instance{})
	groups, err := tx.Encode()
	want := []string{"vol.v", "job.a", "job.b", "inst.shop.web.1+why.shop.web.1+to.w1.shop.web.1", "to.w1.shop.web.0",
		"route.a", "count"}
	if got := keysOf(groups); err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}

// A record that cannot be encoded takes along its group and the groups it leads, and
// nothing else.
func TestWhatCannotBeEncodedIsLeft(t *testing.T) {
	zero := 0.0
	w := newWorld()
	db := w.schema.New()
	tx := db.Begin()
	w.jobs.Put(tx, "shop.mail", &job{Load: zero / zero})
	w.instances.Put(tx, "shop.mail.0", &instance{})
	w.orders.Put(tx, "w1.shop.mail.0", &instance{})
	w.instances.Put(tx, "shop.web.0", &instance{Load: zero / zero})
	w.orders.Put(tx, "w1.shop.web.0", &instance{})
	w.instances.Put(tx, "shop.web.1", &instance{})
	groups, err := tx.Encode()
	if got := keysOf(groups); !slices.Equal(got, []string{"inst.shop.web.1"}) {
		t.Errorf("%q", got)
	}
	for _, key := range []string{"job.shop.mail", "inst.shop.web.0"} {
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%v does not name %s", err, key)
		}
	}
	tx.Done()
	if len(w.jobs.Rows(db)) != 0 || len(w.instances.Rows(db)) != 1 || len(w.orders.Rows(db)) != 0 {
		t.Error("what was not stored is in the DB")
	}
}

func TestEssentialRecords(t *testing.T) {
	var s Schema
	zero := 0.0
	leases := Add(&s, records.Kind{Prefix: "lease."}, Rules[instance]{Essential: true})
	names := Add[instance](&s, records.Kind{Prefix: "name."})
	tx := s.New().Begin()
	leases.Put(tx, "a", &instance{Load: zero / zero})
	names.Put(tx, "a", &instance{})
	if groups, err := tx.Encode(); len(groups) != 0 || err == nil || !strings.Contains(err.Error(), "lease.a") {
		t.Errorf("%v, %v", keysOf(groups), err)
	}
}

func TestLoad(t *testing.T) {
	w := newWorld()
	db := w.schema.New()
	for key, tc := range map[string]struct {
		value string
		known bool
		bad   string
	}{
		"job.a":    {`{"v":1}`, true, ""},
		"job.b":    {`{`, true, "unexpected end"},
		"job.new":  {`{"v":99}`, true, "newer program"},
		"to.w1.a":  {`{`, true, "unexpected end"},
		"why.a":    {`{`, true, ""},
		"inst.a":   {`{}`, true, ""},
		"in1":      {`{"rev":7,"value":"x"}`, true, ""},
		"count":    {`3`, true, ""},
		"counted":  {`3`, false, ""},
		"unheard.": {`3`, false, ""},
	} {
		known, err := db.Load(bus.Entry{Key: key, Value: []byte(tc.value)})
		if known != tc.known || (err == nil) != (tc.bad == "") || err != nil && !strings.Contains(err.Error(), tc.bad) {
			t.Errorf("%s: %v, %v", key, known, err)
		}
	}
	if len(w.jobs.Rows(db)) != 1 || len(w.instances.Rows(db)) != 1 || len(w.whys.Rows(db)) != 0 || *w.count.One(db) != 3 {
		t.Error("not loaded, or too much")
	}
	if again := w.orders.Rows(db)["w1.a"]; again == nil || *again != (instance{}) {
		t.Error("what is made anew is not there without content:", again)
	}
	if s := w.secrets.Rows(db)["1"]; s.Rev != 7 || s.Value != "" {
		t.Error("kept:", s)
	}
	if w.schema.Fate("counted") != records.Holds || w.schema.Fate("why.x") != records.Aside {
		t.Error("fates")
	}
}

func TestPutEncoded(t *testing.T) {
	w := newWorld()
	db := w.schema.New()
	tx := db.Begin()
	value := `{"v":1,"runs":2,"since":"a later version"}`
	if j, err := w.jobs.PutEncoded(tx, "a", []byte(value)); err != nil || j.Runs != 2 {
		t.Fatal(j, err)
	}
	if _, err := w.jobs.PutEncoded(tx, "b", []byte(`{"v":99}`)); err == nil || w.jobs.Get(tx, "b") != nil {
		t.Error("of a newer program:", err)
	}
	groups, err := tx.Encode()
	if err != nil || len(groups) != 1 || string(groups[0][0].Value) != value {
		t.Errorf("%q, %v", keysOf(groups), err)
	}
	w.jobs.Put(tx, "a", &job{Runs: 3})
	if groups, err = tx.Encode(); err != nil || string(groups[0][0].Value) != `{"v":0,"runs":3}` {
		t.Errorf("after Put: %q, %v", keysOf(groups), err)
	}
}

func TestSuffix(t *testing.T) {
	var s Schema
	nets := Add(&s, records.Kind{Prefix: "net."}, Rules[instance]{Suffix: ".net"})
	db := s.New()
	for key, want := range map[string]bool{"net.w1.net": true, "net.w1": false} {
		if known, err := db.Load(bus.Entry{Key: key, Value: []byte("{}")}); known != want || err != nil {
			t.Error(key, known, err)
		}
	}
	if nets.Rows(db)["w1"] == nil || nets.Key("w1") != "net.w1.net" {
		t.Error(nets.Rows(db))
	}
}

func TestTwoKindsWithOnePrefix(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("they were added")
		}
	}()
	var s Schema
	Add[job](&s, records.Kind{Prefix: "a."})
	Add[job](&s, records.Kind{Prefix: "a."})
}

// BenchmarkPass is what the table costs a pass that changes one instance of 10,000.
func BenchmarkPass(b *testing.B) {
	w := newWorld()
	db := w.schema.New()
	for i := range 10_000 {
		w.instances.Rows(db)[strings.Repeat("x", i%7)+string(rune('a'+i%26))+string(rune(i))] = &instance{}
	}
	b.ReportAllocs()
	for b.Loop() {
		tx := db.Begin()
		w.instances.Put(tx, "new", &instance{Worker: "w"})
		if groups, err := tx.Encode(); len(groups) != 1 || err != nil {
			b.Fatal(groups, err)
		}
	}
}

// A package remembers and works out what it needs without a field in anybody's struct.
func TestMemoryAndScratch(t *testing.T) {
	type seen struct{ ids []string }
	type index struct{ n int }
	var s Schema
	kept := Remember(&s, MemoryRules[seen]{Clone: func(v *seen) *seen { return &seen{slices.Clone(v.ids)} }})
	made := Remember(&s, MemoryRules[index]{New: func() *index { return &index{1} }, Derived: true})
	scratch, seven := AddScratch[index](&s), func() *index { return &index{7} }

	db := s.New()
	kept.Of(db).ids = []string{"a"}
	made.Of(db).n = 5
	rehearsal := db.Clone()
	kept.Of(rehearsal).ids[0] = "b"
	if got := kept.Of(db).ids[0]; got != "a" {
		t.Errorf("a rehearsal changed the memory: %s", got)
	}
	if got := made.Of(rehearsal).n; got != 1 {
		t.Errorf("a memory that is not cloned begins with %d, want that of New", got)
	}

	again := s.New()
	again.Inherit(db)
	if got := kept.Of(again).ids; !slices.Equal(got, []string{"a"}) || made.Of(again).n != 1 {
		t.Errorf("inherited %v and %d", got, made.Of(again).n)
	}

	tx := db.Begin()
	scratch.Of(tx, seven).n++
	if a, b := scratch.Of(tx, seven).n, scratch.Of(db.Begin(), seven).n; a != 8 || b != 7 {
		t.Errorf("a scratch has %d in its transaction and %d in another", a, b)
	}
}
