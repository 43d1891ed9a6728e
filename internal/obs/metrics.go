package obs

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	// The Prometheus client: registry, process figures and the exposition format
	// that everybody scrapes.
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics of one process. Figures about state are read from it when somebody
// asks (Sample), so that they cost nothing as long as nobody does.
type Metrics struct {
	registry *prometheus.Registry
	requests *prometheus.HistogramVec
	handler  http.Handler
}

// Sample is one figure, made when it is asked for. Its name begins with verge_;
// that of a counter ends in _total. Units are seconds, bytes, cores.
type Sample struct {
	Name, Help string
	Counter    bool
	Labels     [][2]string // name and value; bounded in number by what the role owns
	Value      float64
	// Histogram, where it is one; Counter and Value mean nothing then.
	Histogram *Histogram
}

// Histogram is a distribution over the buckets of Bounds.
type Histogram struct {
	// Counts of each bucket alone, and of what is above the last bound.
	Counts []uint64
	// Sum of all that was observed.
	Sum float64
}

// Bounds are the upper ends of the buckets that OpenTelemetry advises for the
// durations of requests, in seconds.
var Bounds = []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}

// NewMetrics makes the metrics of a role ("root", "cluster"). samples is called at
// each scrape, by one goroutine at a time; it may be nil.
func NewMetrics(role string, samples func() []Sample) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	// OpenTelemetry's http.server.request.duration, as Prometheus writes it.
	m.requests = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "http_server_request_duration_seconds",
		Help: "Duration of requests to the HTTP interface, without those that wait for news.", Buckets: Bounds,
	}, []string{"http_request_method", "http_route", "http_response_status_code"})
	m.registry.MustRegister(m.requests)
	registerProcess(m.registry, role, samples)
	m.handler = promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
	return m
}

// registerProcess adds the figures of this process, and samples (which may be nil).
func registerProcess(to prometheus.Registerer, role string, samples func() []Sample) {
	to.MustRegister(
		collectors.NewGoCollector(collectors.WithGoCollectorMemStatsMetricsDisabled()),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		sampler(func() []Sample {
			out := []Sample{
				{Name: "verge_build_info", Help: "1; its labels say what runs here.",
					Labels: [][2]string{{"version", Version()}, {"role", role}}, Value: 1},
			}
			if n, ok := diskWritten(); ok {
				out = append(out, Sample{Name: "verge_disk_written_bytes_total",
					Help: "Bytes that this process caused to be written to disk.", Counter: true, Value: n})
			}
			if samples != nil {
				out = append(out, samples()...)
			}
			return out
		}))
}

// ServeHTTP answers a scrape.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.handler.ServeHTTP(w, r) }

// Request notes a request to the HTTP interface. route is its pattern, not its
// path: the number of patterns is bounded.
func (m *Metrics) Request(method, route string, status int, took time.Duration) {
	if m == nil {
		return
	}
	m.requests.WithLabelValues(knownMethod(method), route, strconv.Itoa(status)).Observe(took.Seconds())
}

// knownMethod bounds what a client can make of a label.
func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPost, http.MethodDelete, http.MethodPatch,
		http.MethodOptions:
		return method
	}
	return "_OTHER"
}

// sampler is a collector that does not know beforehand what it will say.
type sampler func() []Sample

var _ prometheus.Collector = sampler(nil)

// Describe says nothing: the registry then checks what is collected each time.
func (sampler) Describe(chan<- *prometheus.Desc) {}

// Collect sends the samples of this moment.
func (s sampler) Collect(ch chan<- prometheus.Metric) {
	for _, v := range s() {
		names, values := make([]string, len(v.Labels)), make([]string, len(v.Labels))
		for i, l := range v.Labels {
			names[i], values[i] = l[0], strings.ToValidUTF8(l[1], "?")
		}
		kind := prometheus.GaugeValue
		if v.Counter {
			kind = prometheus.CounterValue
		}
		desc := prometheus.NewDesc(v.Name, v.Help, names, nil)
		var metric prometheus.Metric
		var err error
		if v.Histogram != nil {
			metric, err = v.Histogram.metric(desc, values)
		} else {
			metric, err = prometheus.NewConstMetric(desc, kind, v.Value, values...)
		}
		if err != nil {
			metric = prometheus.NewInvalidMetric(desc, err)
		}
		ch <- metric
	}
}

// metric is the histogram as Prometheus counts: each bucket with all below it.
func (h *Histogram) metric(desc *prometheus.Desc, values []string) (prometheus.Metric, error) {
	if len(h.Counts) != len(Bounds)+1 {
		return nil, fmt.Errorf("a histogram of %d buckets, not %d", len(h.Counts), len(Bounds)+1)
	}
	var all uint64
	buckets := make(map[float64]uint64, len(Bounds))
	for i, n := range h.Counts {
		all += n
		if i < len(Bounds) {
			buckets[Bounds[i]] = all
		}
	}
	return prometheus.NewConstHistogram(desc, all, h.Sum, buckets, values...)
}

// diskWritten is what the kernel says that this process has caused to be written.
func diskWritten() (float64, bool) {
	b, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(b)) {
		if n, ok := strings.CutPrefix(line, "write_bytes: "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(n), 64)
			return v, err == nil
		}
	}
	return 0, false
}

// Expires is until when a certificate is good.
func Expires(of string, at time.Time) Sample {
	return Sample{Name: "verge_certificate_expiry_timestamp_seconds",
		Help: "When a certificate ends, unless it is renewed before.", Labels: [][2]string{{"certificate", of}},
		Value: float64(at.Unix())}
}

// Bool is 1 or 0.
func Bool(v bool) float64 {
	if v {
		return 1
	}
	return 0
}
