package server

import (
	"encoding/json"
	"net/http"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/rest"
)

// metricsType is the media type of the text format of Prometheus.
const metricsType = "text/plain; version=0.0.4; charset=utf-8"

func (s *Server) workerMetrics(w http.ResponseWriter, r *http.Request) {
	b, _ := s.backend.(rest.Metrics)
	text, err := b.WorkerMetrics(r.Context(), r.PathValue("cluster"), r.PathValue("worker"))
	if err != nil {
		s.fail(w, err)
		return
	}
	w.Header().Set("Content-Type", metricsType)
	_, _ = w.Write(text) // a client that is gone cannot be told
}

// target is an entry of what Prometheus calls HTTP service discovery.
type target struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// targets lists the workers that who asks may measure, each with where: at the
// address by which this server was asked.
func (s *Server) targets(w http.ResponseWriter, r *http.Request) {
	who := access.From(r.Context())
	// Who may only measure may not see them otherwise; what is listed is decided
	// here for each.
	b, _ := s.backend.(rest.Workers)
	all, err := b.Workers(access.With(r.Context(), access.Who{Name: who.Name, Admin: true}))
	if err != nil {
		s.fail(w, err)
		return
	}
	out := []target{}
	for _, v := range all {
		if access.May(who, access.Measure, s.site.Here(rest.OfWorker(v))) != nil || !v.Revoked.IsZero() {
			continue
		}
		out = append(out, target{Targets: []string{r.Host}, Labels: map[string]string{
			"__scheme__":       "https",
			"__metrics_path__": rest.WorkerFigures.PathOf(v.Cluster, v.Name),
			"instance":         v.Cluster + "/" + v.Name,
			"cluster":          v.Cluster,
			"worker":           v.Name,
		}})
	}
	data, err := json.Marshal(out)
	if err != nil {
		s.fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(data, '\n')) // a client that is gone cannot be told
}
