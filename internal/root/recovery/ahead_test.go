package recovery_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/root/clusters"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/recovery"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/root/secrets"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// told is a cluster that exchanges with a root, as its store would.
type told struct {
	t     *testing.T
	name  string
	have  wire.Rev
	proof []byte
}

// report makes a report with a status, as the first one of a connection is.
func (p *told) report(b *core.Core) wire.ReportReply {
	p.t.Helper()
	status, err := json.Marshal(wire.Aggregate{V: wire.Version})
	if err != nil {
		p.t.Fatal(err)
	}
	reply := clusters.OnReport(p.t.Context(), b, p.name,
		wire.Report{V: wire.Version, Have: p.have, Proof: p.proof, Status: status})
	if reply.Refused != "" {
		p.t.Fatalf("%s is refused: %s", p.name, reply.Refused)
	}
	return reply
}

// sync makes a report, and fetches what that says is to be fetched.
func (p *told) sync(b *core.Core) {
	p.t.Helper()
	if reply := p.report(b); reply.Want == p.have {
		return
	}
	page, err := clusters.DesiredOf(b, p.name).Fetch(p.t.Context(), wire.Fetch{V: wire.Version, Since: p.have})
	if err != nil || page.More {
		p.t.Fatal(err, page.More)
	}
	p.have, p.proof = page.To, page.Proof
	p.report(b)
}

// write stores something of the desired state of a cluster.
func write(t *testing.T, b *core.Core, cluster, value string) {
	t.Helper()
	if _, err := b.RecordStore.Put(t.Context(), secrets.KeySealed+cluster+".default.s", []byte(value)); err != nil {
		t.Fatal(err)
	}
}

func (p *told) silent(b *core.Core) bool {
	return p.report(b).Want == p.have && recovery.Silent(b.M, p.name)
}

// A root on an older copy of its data directory is told so by whoever has seen more, and
// recovers before it tells anybody anything. A restart is no such thing.
func TestAnOlderCopyIsNoticed(t *testing.T) {
	dir := t.TempDir()
	store := roottest.NewStore(t)
	b := roottest.NewCoreWithKeys(t, dir, store)
	edge, fog := &told{t: t, name: "edge"}, &told{t: t, name: "fog"}
	for _, p := range []*told{edge, fog} {
		write(t, b, p.name, `{"v":1}`)
		p.sync(b)
	}
	store = store.Reopen()
	b = roottest.NewCoreWithKeys(t, dir, store)
	edge.sync(b)
	fog.sync(b)
	if b.M.Mark() != nil {
		t.Fatalf("after a restart it recovers: %+v", b.M.Mark())
	}
	copied, err := store.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	write(t, b, "edge", `{"v":1,"more":1}`)
	edge.sync(b)
	had := edge.have

	b = roottest.NewCoreWithKeys(t, dir, bustest.OpenMemStore(copied))
	if fog.sync(b); b.M.Mark() != nil {
		t.Fatal("who has seen nothing more led to a recovery")
	}
	if !edge.silent(b) || !fog.silent(b) || !recovery.Holding(b.M, time.Now()) {
		t.Fatalf("it goes on: mark %+v", b.M.Mark())
	}
	if v := recovery.View(b.M, time.Now()); v.Ahead != "cluster edge" || !v.Twin.IsZero() ||
		!strings.Contains(recovery.Problems(v)[0], "older copy") {
		t.Errorf("%+v %q", v, recovery.Problems(v))
	}
	// It is still so after a restart, and over for those who have been asked. The same
	// proof leads to no other question.
	again := bustest.OpenMemStore(mustSnapshot(t, b.RecordStore))
	b = roottest.NewCoreWithKeys(t, dir, again)
	if !edge.silent(b) || !fog.silent(b) {
		t.Fatal("it has forgotten")
	}
	for _, name := range []string{"edge", "fog"} {
		if err := clusters.FinishRecovery(t.Context(), b, name, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	b.M.Settled = true
	if edge.have = had; edge.silent(b) {
		t.Error("it is asked again with the same proof")
	}
	if edge.sync(b); edge.have == had || b.M.Mark().Asked["edge"].IsZero() {
		t.Errorf("it is not told what counts: has %s, mark %+v", edge.have, b.M.Mark())
	}
}

func mustSnapshot(t *testing.T, s bus.Store) bus.Snapshot {
	t.Helper()
	c, err := s.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Nobody leads a root into a recovery with words of his own: not with a revision that he
// made up, not with another cluster's proof, and not with one of another root. Who is of a
// version before has no proof, and is told everything as before.
func TestNobodyMakesUpALaterState(t *testing.T) {
	dir := t.TempDir()
	store := roottest.NewStore(t)
	copied := mustSnapshot(t, store)
	b := roottest.NewCoreWithKeys(t, dir, store)
	edge := &told{t: t, name: "edge"}
	write(t, b, "edge", `{"v":1}`)
	edge.sync(b)
	other := roottest.NewCoreWithKeys(t, t.TempDir(), bustest.NewMemStore())
	later := wire.Rev{Inc: edge.have.Inc, N: edge.have.N + 1000}
	for name, p := range map[string]*told{
		"no proof":            {t: t, name: "edge", have: edge.have},
		"another cluster's":   {t: t, name: "fog", have: edge.have, proof: edge.proof},
		"of another revision": {t: t, name: "edge", have: later, proof: edge.proof},
		"of another era":      {t: t, name: "edge", have: wire.Rev{Inc: wire.NewID(), N: 1000}, proof: edge.proof},
		"of another root":     {t: t, name: "edge", have: later, proof: clusters.Prove(other, "edge")(later)},
		"of nothing":          {t: t, name: "fog", proof: clusters.Prove(b, "fog")(wire.Rev{})},
	} {
		b := roottest.NewCoreWithKeys(t, dir, bustest.OpenMemStore(copied))
		if reply := p.report(b); b.M.Mark() != nil || reply.Want == p.have && !p.have.IsZero() {
			t.Errorf("%s: mark %+v, wants %s of who has %s", name, b.M.Mark(), reply.Want, p.have)
		}
	}
	b = roottest.NewCoreWithKeys(t, dir, bustest.OpenMemStore(copied))
	if !edge.silent(b) || b.M.Mark() == nil {
		t.Error("the right one is not believed: this tests nothing")
	}
}

// What a new process hears first of a cluster may have no proof yet: it is answered when
// it says all.
func TestTheFirstReportIsNotTheLastWord(t *testing.T) {
	b := roottest.NewCoreWithKeys(t, t.TempDir(), roottest.NewStore(t))
	write(t, b, "edge", `{"v":1}`)
	have := wire.Rev{Inc: "x", N: 1}
	if reply := clusters.OnReport(t.Context(), b, "edge",
		wire.Report{V: wire.Version, Have: have}); reply.Want != have ||
		!reply.NeedStatus {
		t.Errorf("%+v", reply)
	}
}

// A cluster that fetched without proofs, from a version before, is given one for what it has.
func TestAProofIsGivenLater(t *testing.T) {
	b := roottest.NewCoreWithKeys(t, t.TempDir(), roottest.NewStore(t))
	write(t, b, "edge", `{"v":1}`)
	edge := &told{t: t, name: "edge"}
	edge.sync(b)
	want := edge.proof
	edge.proof = nil
	if got := edge.report(b).Proof; len(got) == 0 || string(got) != string(want) {
		t.Errorf("got %x, want %x", got, want)
	}
	if got := (&told{t: t, name: "edge", have: edge.have, proof: want}).report(b).Proof; got != nil {
		t.Errorf("it is given again: %x", got)
	}
}

// Two roots work on copies of one directory, and a cluster is told by one and then by the
// other: each says so and asks it what it holds, and neither makes it end anything.
func TestTwoRootsOnCopies(t *testing.T) {
	dir := t.TempDir()
	store := roottest.NewStore(t)
	one := roottest.NewCoreWithKeys(t, dir, store)
	edge := &told{t: t, name: "edge"}
	write(t, one, "edge", `{"v":1}`)
	edge.sync(one)
	two := roottest.NewCoreWithKeys(t, dir, bustest.OpenMemStore(mustSnapshot(t, store)))
	write(t, two, "edge", `{"v":1,"by":"two"}`)
	edge.sync(two) // it has not seen more than the copy has
	if two.M.Mark() != nil {
		t.Fatalf("%+v", two.M.Mark())
	}
	for n := range 3 {
		for _, b := range []*core.Core{one, two} {
			if !edge.silent(b) {
				t.Fatalf("round %d: it is told another state", n)
			}
			v := recovery.View(b.M, time.Now())
			if v.Twin.IsZero() || !strings.Contains(v.Why(), "stop one of the two") {
				t.Fatalf("round %d: %+v", n, v)
			}
			if err := clusters.FinishRecovery(t.Context(), b, "edge", time.Now()); err != nil {
				t.Fatal(err)
			}
			b.M.Clusters["fog"].Suspect = true
			b.M.Settled = true
			write(t, b, "edge", time.Now().String())
			edge.sync(b)
			if got := clusters.DesiredOf(b, "edge").Rev(); edge.have != got {
				t.Fatalf("round %d: it has %s, want %s", n, edge.have, got)
			}
		}
	}
}

// A recovery that has ended stays so: an old proof does not begin it again, not after a restart
// either, and one that goes on without a cluster does not wait for it when it comes.
func TestAnOldProofBeginsNothing(t *testing.T) {
	dir := t.TempDir()
	store := roottest.NewStore(t)
	copied := mustSnapshot(t, store)
	b := roottest.NewCoreWithKeys(t, dir, store)
	edge, fog := &told{t: t, name: "edge"}, &told{t: t, name: "fog"}
	var old told
	for n := range 3 {
		for _, p := range []*told{edge, fog} {
			write(t, b, p.name, fmt.Sprintf(`{"v":1,"n":%d}`, n))
			p.sync(b)
		}
		if n == 1 {
			old = *edge
		}
	}
	b = roottest.NewCoreWithKeys(t, dir, bustest.OpenMemStore(copied))
	if !edge.silent(b) {
		t.Fatal("the older copy is not noticed")
	}
	// Nobody waits for fog.
	if err := clusters.FinishRecovery(t.Context(), b, "fog", time.Now()); err != nil {
		t.Fatal(err)
	}
	if fog.report(b); recovery.Unasked(b.M, "fog") {
		t.Error("it is asked although it need not be")
	}
	if err := clusters.FinishRecovery(t.Context(), b, "", time.Now()); err != nil {
		t.Fatal(err)
	}
	write(t, b, "edge", `{"v":1,"since":true}`)
	for range 2 {
		for name, p := range map[string]told{"edge": *edge, "fog": *fog, "what edge had before": old} {
			if p.report(b); b.M.Mark() != nil {
				t.Errorf("%s begins a recovery: %+v", name, b.M.Mark())
			}
			delete(state.MarkTable.Rows(b.M.DB), "")
		}
		b = roottest.NewCoreWithKeys(t, dir, bustest.OpenMemStore(mustSnapshot(t, b.RecordStore)))
	}
	// All have what is wanted now; then this is an older copy in its turn.
	copied = mustSnapshot(t, b.RecordStore)
	for _, p := range []*told{edge, fog} {
		write(t, b, p.name, `{"v":1,"later":true}`)
		p.sync(b)
		p.report(b)
	}
	b = roottest.NewCoreWithKeys(t, dir, bustest.OpenMemStore(copied))
	if edge.report(b); b.M.Mark() == nil {
		t.Error("a second older copy is not noticed")
	}
}
