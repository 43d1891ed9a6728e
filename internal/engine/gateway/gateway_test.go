package gateway

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/engine/status"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/proxy"
)

type router struct{ state proxy.GatewayState }

func (r *router) Gateway() proxy.GatewayState { return r.state }
func (r *router) GatewayTLSAddr() string      { return "" }

// A problem of a port is shown while it lasts, and what is published changes with the router.
func TestProblemsOfAGatewayPass(t *testing.T) {
	b := status.NewBoard(engineapi.EngineInfo{})
	r := &router{state: proxy.GatewayState{Ports: []proxy.GatewayPortState{{Port: 5432, Service: "shop.db",
		Problem: "it is taken"}}}}
	w := NewWatcher(b, status.NewProblems(slog.New(slog.DiscardHandler), b))
	w.Watch(r)
	told := map[string]bool{}
	w.show(told)
	s, _, _ := b.Since(0)
	if len(s.Info.Problems) != 1 || !strings.Contains(s.Info.Problems[0], "it is taken") ||
		len(s.Info.Published.Ports) != 1 {
		t.Fatalf("%+v", s.Info)
	}
	r.state.Ports[0].Problem = ""
	w.show(told)
	if s, _, _ := b.Since(0); len(s.Info.Problems) != 0 || len(told) != 0 {
		t.Errorf("it has passed, and %v is shown", s.Info.Problems)
	}
	if _, err := ACMEServer(engineapi.ACMEConfig{CA: t.TempDir()}); err == nil {
		t.Error("a folder has authorities")
	}
}
