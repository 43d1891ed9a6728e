package clustertest

import (
	"encoding/json"
	"strings"

	"github.com/verge-edge/verge/api/descriptor"
	"github.com/verge-edge/verge/internal/cluster/planner"
	"github.com/verge-edge/verge/internal/cluster/uplink"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Everything is all that a cluster knows and has stored, as text.
func (s *Site) Everything() string {
	s.T.Helper()
	entries, err := s.Store.List(s.T.Context(), "")
	if err != nil {
		s.T.Fatal(err)
	}
	b, err := json.Marshal([]any{entries, s.Store.Rev(), s.Core.M.Have(), uplink.Memory(s.Core.M).Lost.At,
		s.Core.EventRing.After(s.T.Context(), 0, 0)})
	if err != nil {
		s.T.Fatal(err)
	}
	return Text(s.Core.M) + string(b)
}

// PlanAsk is the question of the root about app with so many instances here.
func (s *Site) PlanAsk(source []byte, here int) *rpc.PlanAsk {
	s.T.Helper()
	q := &rpc.PlanAsk{App: "app"}
	if source != nil {
		spec, _, err := descriptor.Parse("", source)
		if err != nil {
			s.T.Fatal(err)
		}
		for name, svc := range spec.Services {
			q.Shares = append(q.Shares, wire.Share{V: wire.Version, App: "app", Service: name, Revision: s.Rev + 1,
				Min: here, Max: here, Spec: svc, Ordinals: []wire.Span{{To: here}}})
		}
	}
	return q
}

// Plan is the answer to PlanAsk; nothing else may come of it.
func (s *Site) Plan(source []byte, here int) rpc.SitePlan {
	s.T.Helper()
	q := s.PlanAsk(source, here)
	before := s.Everything()
	got, err := planner.PlanShares(s.T.Context(), s.Core, q, 0, s.Now)
	if err != nil {
		s.T.Fatal(err)
	}
	if after := s.Everything(); after != before {
		s.T.Fatalf("a plan has changed something:\n%s\n%s", before, after)
	}
	return got
}

// Actions are the actions of a plan as text, such as "0 start, 1 keep".
func Actions(list []rpc.InstancePlan) string {
	var out []string
	for _, p := range list {
		out = append(out, strings.TrimPrefix(p.ID, "app.web.")+" "+p.Action)
	}
	return strings.Join(out, ", ")
}
