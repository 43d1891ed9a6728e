package root

import (
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/bus/records/clonetest"
	"github.com/verge-edge/verge/internal/wire"
)

// immutable are the values of a model that a clone may share: records and messages, which
// are replaced as a whole. TestAnyTroubleEndsWell holds them to it.
func immutable(at string, t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch dir, pkg := path.Split(t.PkgPath()); {
	case t == reflect.TypeFor[time.Time]():
		return true
	case t == reflect.TypeFor[wire.Share]() && at == "model.shares[]":
		return false // see sameShare
	case pkg == "wire" || pkg == "api" || pkg == "backup" || pkg == "enroll" || pkg == "lease":
		return dir != ""
	case pkg == "root" && t.Kind() == reflect.Struct:
		return slices.Contains([]string{"overflow", "schedule", "clusterRecord", "lost", "held"}, t.Name())
	}
	if pkg := path.Base(t.PkgPath()); pkg == "table" && t.Name() != "DB" && !strings.HasPrefix(t.Name(), "tableRows") {
		return true // what the schema says
	}
	return false
}

// A clone shares no map, slice or pointer with its model that anybody modifies.
func TestACloneSharesNothing(t *testing.T) {
	m := newModel(time.Minute)
	clonetest.Fill(m, immutable)
	m.bind(schema.New())
	m.shares["edge.app.web"] = &wire.Share{V: wire.Version}
	for _, at := range clonetest.Shared(m, m.clone(), immutable) {
		t.Errorf("%s is shared with the clone: see model.clone", at)
	}
}

// What a rehearsal does stays in it, also of what is of this process alone: here a pass
// forgets a leading cluster, and what a cluster lacks.
func TestARehearsalLeavesNothingInTheModel(t *testing.T) {
	s := newSim(t, "c1", "c2")
	s.ticks(2, time.Second)
	s.apply("app", 2, nil)
	s.ticks(6, time.Second)
	c := s.m.clusters["c1"]
	c.short = map[string]*shortage{"gone.web": {full: "full"}}
	c.lacks("app.web").held.N = 3
	c.agg.Entering = []wire.Entering{{App: "app", Service: "web", Rate: 10}}
	s.m.leads = map[string]*leading{"app.web": {from: "c1", to: "c2", why: "it is so"}, "gone.web": {}}
	before := everything(t, s.m)
	m := s.m.clone()
	m.lull(s.now)
	m.clusters["c1"].revoked["hash"] = wire.Revocation{V: wire.Version}
	m.step(s.now).Done()
	if len(m.leads) == 2 || m.clusters["c1"].short["gone.web"] != nil {
		t.Errorf("nothing was forgotten: %+v, %+v", m.leads, m.clusters["c1"].short)
	}
	if after := everything(t, s.m); after != before {
		t.Errorf("the model was\n%s\nand is\n%s", before, after)
	}
}
