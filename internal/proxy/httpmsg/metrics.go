package httpmsg

import (
	"math"
	"time"

	"github.com/verge-edge/verge/internal/orca"
	"github.com/verge-edge/verge/internal/policy/scale"
)

// Names of our metrics in load reports.
const (
	MetricQueue      = "queue_length"
	MetricInFlight   = "in_flight"
	MetricRate       = "departure_rate"
	MetricConfidence = "confidence"
	MetricExec       = "exec_ms"
	metricWork       = "work_ms"
)

// SetQueueMetrics adds what a queue has measured to a report.
func SetQueueMetrics(r *orca.Report, s scale.Report) {
	r.Set(MetricQueue, float64(s.Queue))
	r.Set(MetricInFlight, float64(s.InFlight))
	r.Set(MetricRate, s.Rate)
	r.Set(MetricConfidence, s.Confidence)
	r.Set(MetricExec, float64(s.Exec)/1e6)
	if s.Work < s.Exec { // seldom: only large bodies are waited for
		r.Set(metricWork, float64(max(s.Work, time.Microsecond))/1e6)
	} else {
		r.Drop(metricWork) // not the instance's to say
	}
}

// QueueMetrics takes from a report what the queue of another router has measured; false where
// it has not.
func QueueMetrics(r *orca.Report) (s scale.Report, ok bool) {
	q, ok1 := r.Get(MetricQueue)
	in, ok2 := r.Get(MetricInFlight)
	rate, ok3 := r.Get(MetricRate)
	conf, ok4 := r.Get(MetricConfidence)
	exec, ok5 := r.Get(MetricExec)
	if !(ok1 && ok2 && ok3 && ok4 && ok5) || conf > 1 || q > math.MaxInt32 || in > math.MaxInt32 || exec > 1e9 {
		return s, false
	}
	work, ok := r.Get(metricWork)
	if !ok || work > exec {
		work = exec
	}
	return scale.Report{
		Queue: int(q), InFlight: int(in), Rate: rate, Confidence: conf, Exec: time.Duration(exec * 1e6),
		Work: time.Duration(work * 1e6),
		CPU:  r.CPU, Memory: r.Memory,
	}, true
}
