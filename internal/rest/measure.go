package rest

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/wire"
)

// Measuring is the part of a Backend that is about the figures of workers. They
// have no port of their own to be scraped at.
type Measuring interface {
	// WorkerMetrics are a worker's figures of this moment, in the text format of
	// Prometheus.
	WorkerMetrics(ctx context.Context, cluster, worker string) ([]byte, error)
}

// Where figures are found.
const (
	metricsPath = "/metrics"
	targetsPath = "/metrics/targets"
	metricsType = "text/plain; version=0.0.4; charset=utf-8"
)

func (s *Server) registerMeasuring() {
	if s.metrics != nil {
		// Sums over everything, with the names of clusters.
		s.handle("GET "+metricsPath, may(access.Measure, system), s.metrics.ServeHTTP)
	}
	s.handle("GET "+targetsPath, anyone, s.targets)
	s.handle("GET /v1/workers/{cluster}/{worker}"+metricsPath, may(access.Measure, worker("cluster", "worker")), s.workerMetrics)
}

func (s *Server) workerMetrics(w http.ResponseWriter, r *http.Request) {
	text, err := s.backend.WorkerMetrics(r.Context(), r.PathValue("cluster"), r.PathValue("worker"))
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
	all, err := s.backend.Workers(access.With(r.Context(), access.Who{Name: who.Name, Admin: true}))
	if err != nil {
		s.fail(w, err)
		return
	}
	out := []target{}
	for _, v := range all {
		if access.May(who, access.Measure, s.here(ofWorker(v))) != nil || !v.Revoked.IsZero() {
			continue
		}
		out = append(out, target{Targets: []string{r.Host}, Labels: map[string]string{
			"__scheme__":       "https",
			"__metrics_path__": "/v1/workers/" + url.PathEscape(v.Cluster) + "/" + url.PathEscape(v.Name) + metricsPath,
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

// fail answers with what went wrong.
func (s *Server) fail(w http.ResponseWriter, err error) {
	p := asProblem(err)
	writeProblem(w, &wire.Problem{Status: p.Status, Code: p.Code, Title: p.Title, Detail: p.Detail, Remedy: p.Remedy})
}
