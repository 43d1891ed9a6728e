package proxy

import (
	"math"
	"time"

	"github.com/verge-edge/verge/internal/orca"
	"github.com/verge-edge/verge/internal/policy/scale"
)

// Names of our metrics in load reports.
const (
	metricQueue      = "queue_length"
	metricInFlight   = "in_flight"
	metricRate       = "departure_rate"
	metricConfidence = "confidence"
	metricExec       = "exec_ms"
	metricWork       = "work_ms"
)

// loadReport adds what a queue has measured to a report.
func loadReport(r *orca.Report, s scale.Report) {
	r.Set(metricQueue, float64(s.Queue))
	r.Set(metricInFlight, float64(s.InFlight))
	r.Set(metricRate, s.Rate)
	r.Set(metricConfidence, s.Confidence)
	r.Set(metricExec, float64(s.Exec)/1e6)
	if s.Work < s.Exec { // seldom: only large bodies are waited for
		r.Set(metricWork, float64(max(s.Work, time.Microsecond))/1e6)
	} else {
		r.Drop(metricWork) // not the instance's to say
	}
}

// ours takes from a report what the queue of another router has measured; false where
// it has not.
func ours(r *orca.Report) (s scale.Report, ok bool) {
	q, ok1 := r.Get(metricQueue)
	in, ok2 := r.Get(metricInFlight)
	rate, ok3 := r.Get(metricRate)
	conf, ok4 := r.Get(metricConfidence)
	exec, ok5 := r.Get(metricExec)
	if !(ok1 && ok2 && ok3 && ok4 && ok5) || conf > 1 || q > math.MaxInt32 || in > math.MaxInt32 || exec > 1e9 {
		return s, false
	}
	work, ok := r.Get(metricWork)
	if !ok || work > exec {
		work = exec
	}
	return scale.Report{
		Queue: int(q), InFlight: int(in), Rate: rate, Confidence: conf, Exec: time.Duration(exec * 1e6), Work: time.Duration(work * 1e6),
		CPU: r.CPU, Memory: r.Memory,
	}, true
}
