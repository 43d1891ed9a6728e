package status

import (
	"fmt"
	"testing"

	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/wire"
)

func TestBoardTellsWhatChanged(t *testing.T) {
	t.Parallel()
	b := NewBoard(engineapi.EngineInfo{})
	put := func(id string, phase wire.Phase) { b.Put(wire.InstanceStatus{ID: id, Phase: phase}, nil) }
	put("a.b.0", wire.PhasePending)
	put("a.b.1", wire.PhasePending)
	first, news, changed := b.Since(0)
	if !news || len(first.Changed) != 2 || first.Seq != 2 {
		t.Fatalf("%+v", first)
	}
	put("a.b.1", wire.PhasePending)
	select {
	case <-changed:
		t.Fatal("the same status again is a change")
	default:
	}
	put("a.b.1", wire.PhaseRunning)
	b.Forget("a.b.0")
	<-changed
	s, news, _ := b.Since(first.Seq)
	if !news || len(s.Changed) != 1 || s.Changed[0].ID != "a.b.1" || len(s.Gone) != 1 || s.Gone[0] != "a.b.0" {
		t.Errorf("%+v", s)
	}
	// One that is back is not gone.
	put("a.b.0", wire.PhasePending)
	if s, _, _ := b.Since(first.Seq); len(s.Changed) != 2 || len(s.Gone) != 0 {
		t.Errorf("%+v", s)
	}
	if s, news, _ := b.Since(s.Seq + 1); news || len(s.Changed) != 0 {
		t.Errorf("news %v: %+v", news, s)
	}
	// A number of another engine's is answered with everything.
	if s, news, _ := b.Since(1000); !news || len(s.Changed) != 2 {
		t.Errorf("news %v: %+v", news, s)
	}
}

func TestBoardForgetsBoundedly(t *testing.T) {
	t.Parallel()
	b := NewBoard(engineapi.EngineInfo{})
	b.Put(wire.InstanceStatus{ID: "a.b.0", Phase: wire.PhaseRunning}, nil)
	first, _, _ := b.Since(0)
	for i := range maxGone + 1 {
		b.Forget(fmt.Sprintf("a.c.%d", i))
	}
	s, news, _ := b.Since(first.Seq)
	if !news || s.Engine == first.Engine || len(s.Changed) != 1 || len(s.Gone) != 0 {
		t.Errorf("a reader that is too far behind must be told everything under a new name: %d changed, %d gone, "+
			"same name %v",
			len(s.Changed), len(s.Gone), s.Engine == first.Engine)
	}
}

func TestBoardAnswersAreCopies(t *testing.T) {
	t.Parallel()
	b := NewBoard(engineapi.EngineInfo{Missing: map[string]string{"process": "x"}})
	b.Put(wire.InstanceStatus{ID: "a.b.0", Ports: map[string]int{"http": 1}, LastExit: &wire.Exit{Code: 7}}, nil)
	s, _, _ := b.Since(0)
	s.Changed[0].Ports["http"], s.Changed[0].LastExit.Code, s.Info.Missing["process"] = 2, 8, "y"
	again, _, _ := b.Since(0)
	if c := again.Changed[0]; c.Ports["http"] != 1 || c.LastExit.Code != 7 || again.Info.Missing["process"] != "x" {
		t.Errorf("%+v", again)
	}
}
