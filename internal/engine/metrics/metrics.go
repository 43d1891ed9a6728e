package metrics

import (
	"maps"
	"slices"
	"strconv"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/overlay"
	"github.com/verge-edge/verge/internal/proxy"
	"github.com/verge-edge/verge/internal/wire"
)

// Bounds of metrics: the first services by name, and distributions of answers in total.
const (
	maxMeasuredServices = 1000
	maxMeasuredAnswers  = 2000
)

// Worker are the figures of what runs on a worker.
type Worker struct {
	// Phases counts instances by phase.
	Phases                              map[string]int
	Ready, Draining, Restarts, Problems int
	Starts, FailedStarts                uint64
	// Commands are the checks by command that are being made.
	Commands, Sessions int
	Reserved, Capacity api.Resources
	Gateway            *wire.GatewayInfo
}

// Samples are the figures as obs.Page takes them.
func (w *Worker) Samples() []obs.Sample {
	out := []obs.Sample{
		{Name: "verge_worker_instances_ready", Help: "Instances that may receive requests.", Value: float64(w.Ready)},
		{Name: "verge_worker_instances_draining", Help: "Instances that finish what they have before they are stopped.",
			Value: float64(w.Draining)},
		{Name: "verge_worker_instance_restarts", Help: "Restarts in place of the instances that are there now.",
			Value: float64(w.Restarts)},
		{Name: "verge_worker_starts_total", Help: "Starts of programs since the engine started.", Counter: true,
			Value: float64(w.Starts)},
		{Name: "verge_worker_start_failures_total", Help: "Starts of programs that failed since the engine started.",
			Counter: true, Value: float64(w.FailedStarts)},
		{Name: "verge_worker_problems", Help: "Things that are wrong now; verge status says which.",
			Value: float64(w.Problems)},
		{Name: "verge_worker_checks_running", Help: "Checks by command that are being made.",
			Value: float64(w.Commands)},
		{Name: "verge_worker_exec_sessions", Help: "Sessions of verge exec.", Value: float64(w.Sessions)},
		{Name: "verge_worker_reserved_cpu_cores", Help: "What instances have reserved.",
			Value: float64(w.Reserved.CPU) / 1000},
		{Name: "verge_worker_reserved_memory_bytes", Help: "What instances have reserved.",
			Value: float64(w.Reserved.Memory)},
		{Name: "verge_worker_capacity_cpu_cores", Help: "What instances may reserve.",
			Value: float64(w.Capacity.CPU) / 1000},
		{Name: "verge_worker_capacity_memory_bytes", Help: "What instances may reserve.",
			Value: float64(w.Capacity.Memory)},
	}
	for _, p := range slices.Sorted(maps.Keys(w.Phases)) {
		out = append(out, obs.Sample{Name: "verge_worker_instances", Help: "Instances by phase.",
			Labels: [][2]string{{"phase", p}}, Value: float64(w.Phases[p])})
	}
	return append(out, certificates(w.Gateway)...)
}

// Network are the figures of the service network.
func Network(st *overlay.Stats) []obs.Sample {
	out := []obs.Sample{
		{Name: "verge_network_instances", Help: "Instances that are connected to the service network.",
			Value: float64(st.Instances)},
		{Name: "verge_network_services", Help: "Services, each by a policy, that there are rules for.",
			Value: float64(st.Services)},
		{Name: "verge_dns_queries_total", Help: "Questions to the worker's name server.", Counter: true,
			Value: float64(st.Names.Asked)},
		{Name: "verge_dns_unanswered_total", Help: "Questions without an answer: their sender asked too often.",
			Counter: true, Value: float64(st.Names.Unanswered)},
		{Name: "verge_dns_forward_failures_total",
			Help: "Questions about other names that the machine's own name servers did not answer.", Counter: true,
			Value: float64(st.Names.Failed)},
	}
	count := func(name, help, label string, counter bool, by map[string]uint64) {
		for _, k := range slices.Sorted(maps.Keys(by)) {
			out = append(out, obs.Sample{Name: name, Help: help, Counter: counter, Labels: [][2]string{{label, k}},
				Value: float64(by[k])})
		}
	}
	count("verge_network_dropped_packets_total",
		"Packets refused: spoofed (not the sender's address), isolated (another application's), guarded (to the "+
			"machine), outside (opened from outside), foreign (for nobody here), endless (a service without "+
			"an endpoint).", "reason", true, st.Dropped)
	count("verge_network_first_packets_total",
		"Packets to service addresses without a rule: known (it was made, and they went on) or nobody (there is no "+
			"such service).", "result", true, map[string]uint64{"known": st.First, "nobody": st.Nobody})
	count("verge_dns_answers_total", "Answers of the worker's name server.", "code", true, st.Names.Answers)
	peers := map[string]uint64{wire.PathDirect: 0, wire.PathRelay: 0, wire.PathNone: 0}
	for path, n := range st.Peers {
		peers[path] = uint64(n) //nolint:gosec // a count
	}
	count("verge_network_peers", "Other workers with which there is traffic, by how they are reached.", "path", false,
		peers)
	return out
}

// Proxy are the figures of the router. A service that was not asked for here has
// none of its own.
func Proxy(st *proxy.Stats) []obs.Sample {
	traffic := func(out []obs.Sample, name string, t proxy.Traffic, labels ...[2]string) []obs.Sample {
		return append(out,
			obs.Sample{Name: "verge_" + name + "_received_bytes_total", Help: "Bytes from clients.", Counter: true,
				Labels: labels, Value: float64(t.Received)},
			obs.Sample{Name: "verge_" + name + "_sent_bytes_total", Help: "Bytes to clients.", Counter: true,
				Labels: labels, Value: float64(t.Sent)})
	}
	out := []obs.Sample{
		{Name: "verge_proxy_invalid_load_reports_total",
			Help: "Load reports of instances that were not used as something in them is wrong.", Counter: true,
			Value: float64(st.InvalidReports)},
		{Name: "verge_proxy_no_route_total", Help: "Connections to services that have no route.", Counter: true,
			Value: float64(st.NoRoute)},
		{Name: "verge_proxy_handshakes", Help: "Handshakes with other workers under way.",
			Value: float64(st.Handshakes)},
		{Name: "verge_proxy_waiting_requests", Help: "Requests that wait for the answer of another worker.",
			Value: float64(st.Waiting)},
	}
	for _, p := range []struct {
		port string
		open int
	}{{"entry", st.EntryConns}, {"data", st.Data.Open}, {"gateway", st.Gateway.Open}} {
		out = append(out, obs.Sample{Name: "verge_proxy_open_connections",
			Help: "Connections of clients now: of programs here (entry), of other workers (data), of " +
				"users (gateway).",
			Labels: [][2]string{{"port", p.port}}, Value: float64(p.open)})
	}
	for _, r := range []struct {
		result string
		n      uint64
	}{{"served", st.Data.Served}, {"refused", st.Data.Refused}, {"rejected", st.Data.Rejected}} {
		out = append(out, obs.Sample{Name: "verge_data_connections_total",
			Help:    "Connections of other workers: given to an instance, refused with the reason, or cut off.",
			Counter: true, Labels: [][2]string{{"result", r.result}}, Value: float64(r.n)})
	}
	for _, r := range []struct {
		reason string
		n      uint64
	}{{"unknown-host", st.Gateway.UnknownHost}, {"no-endpoint", st.Gateway.NoEndpoint}, {"failed", st.Gateway.Failed},
		{"limit", st.Gateway.Rejected}, {"rate", st.Gateway.Limited}, {"proxy-header", st.Gateway.BadProxy},
		{"http2-flood", st.Gateway.Flooded}} {
		out = append(out, obs.Sample{Name: "verge_gateway_refused_total",
			Help: "What the gateway answered itself: 404, 503, 502, 429 to one client over its rate, or nothing to a " +
				"connection over the limit, or to one of a balancer without the header of the PROXY protocol, or to " +
				"one of HTTP/2 with too many empty or control frames.", Counter: true,
			Labels: [][2]string{{"reason", r.reason}}, Value: float64(r.n)})
	}
	for _, l := range st.Lines[:min(len(st.Lines), maxMeasuredServices)] {
		for _, way := range []struct {
			direction string
			bps       float64
		}{{"there", l.There}, {"back", l.Back}} {
			if way.bps > 0 {
				out = append(out, obs.Sample{Name: "verge_proxy_line_bytes_per_second",
					Help: "What the line to another worker carries, there and back, as the newest large bodies of " +
						"requests and answers have shown it.",
					Labels: [][2]string{{"cluster", l.Cluster}, {"worker", l.Name}, {"direction", way.direction}},
					Value:  way.bps})
			}
		}
	}
	out = traffic(out, "data", st.Data.Traffic)
	out = traffic(out, "gateway", st.Gateway.Traffic)
	left, answers := 0, 0
	for n := range st.Services {
		s := &st.Services[n]
		if s.Connections == 0 && s.Requests == 0 {
			continue
		}
		if n >= maxMeasuredServices {
			left++
			continue
		}
		of := [][2]string{{"application", s.App}, {"service", s.Service}}
		out = append(out, obs.Sample{Name: "verge_proxy_failures_total",
			Help: "Connections and requests that no instance took.", Counter: true, Labels: of,
			Value: float64(s.Failures)})
		states := map[proxy.EndpointState]int{proxy.EndpointOK: 0, proxy.EndpointSuspect: 0, proxy.EndpointEjected: 0,
			proxy.EndpointNoPath: 0}
		for _, e := range s.Endpoints {
			states[e.State]++
		}
		for _, state := range slices.Sorted(maps.Keys(states)) {
			out = append(out, obs.Sample{Name: "verge_proxy_endpoints",
				Help: "Instances of a service as this router sees them.", Labels: with(of, "state", string(state)),
				Value: float64(states[state])})
		}
		if s.Requests > 0 {
			out = append(out, requested(s, of)...)
		}
		if s.Connections > 0 {
			out = append(out,
				obs.Sample{Name: "verge_proxy_connections_total", Help: "Connections of programs here.", Counter: true,
					Labels: of, Value: float64(s.Connections)},
				obs.Sample{Name: "verge_proxy_connect_duration_seconds",
					Help: "How long a connection took to reach an instance, or to fail.", Labels: of,
					Histogram: distribution(s.Connects)})
			out = traffic(out, "proxy", s.Traffic, of...)
		}
		for _, a := range s.Answers {
			if answers++; answers > maxMeasuredAnswers {
				continue
			}
			method, status := a.Method, strconv.Itoa(a.Status)
			if a.Status == 0 {
				method, status = "_OTHER", "_OTHER"
			}
			out = append(out, obs.Sample{
				Name: "http_server_request_duration_seconds", Help: "Duration of requests at the gateway.",
				Labels: append(with(of, "http_request_method", method),
					[2]string{"http_response_status_code", status}),
				Histogram: distribution(a.Histogram),
			})
		}
	}
	return append(out,
		obs.Sample{Name: "verge_worker_figures_left_out",
			Help:  "Services and kinds of answers that are too many to be told apart.",
			Value: float64(left + max(answers-maxMeasuredAnswers, 0))})
}

func with(labels [][2]string, name, value string) [][2]string {
	return append(labels[:len(labels):len(labels)], [2]string{name, value})
}

// requested are the figures of a service that is routed by request, whatever the number
// of its instances.
func requested(s *proxy.ServiceStats, of [][2]string) (out []obs.Sample) {
	for _, r := range []struct {
		reason string
		n      uint64
	}{{"full", s.Full}, {"late", s.Late}, {"objective", s.Hopeless}, {"not-started", s.Unstarted}} {
		out = append(out, obs.Sample{Name: "verge_requests_refused_total",
			Help: "Requests that got no answer of an instance because queues were full, because it would have come " +
				"too late, because the objective could not be met, or because no instance started.", Counter: true,
			Labels: with(of, "reason", r.reason), Value: float64(r.n)})
	}
	for _, r := range []struct {
		result string
		n      uint64
	}{{"made", s.Retries}, {"refused", s.RetriesRefused}} {
		out = append(out, obs.Sample{Name: "verge_request_retries_total",
			Help: "Requests that were sent again to another instance, and those for which the budget had " +
				"nothing left.",
			Counter: true, Labels: with(of, "result", r.result), Value: float64(r.n)})
	}
	inFlight, queued := 0, 0
	for _, e := range s.Endpoints {
		inFlight, queued = inFlight+e.InFlight, queued+e.Queue
	}
	return append(out,
		obs.Sample{Name: "verge_request_outliers_total",
			Help: "Instances taken out of the rotation for the errors that they answered.", Counter: true, Labels: of,
			Value: float64(s.Outliers)},
		obs.Sample{Name: "verge_request_mean_bytes",
			Help:   "Bytes of the bodies of requests and of their answers, the newest counting most.",
			Labels: with(of, "direction", "there"), Value: s.MeanBody},
		obs.Sample{Name: "verge_request_mean_bytes",
			Help:   "Bytes of the bodies of requests and of their answers, the newest counting most.",
			Labels: with(of, "direction", "back"), Value: s.MeanAnswer},
		obs.Sample{Name: "verge_requests_in_flight", Help: "Requests from here at instances now.", Labels: of,
			Value: float64(inFlight)},
		obs.Sample{Name: "verge_requests_queued",
			Help: "Requests that wait in front of the instances of a service, by the newest reports.", Labels: of,
			Value: float64(queued)})
}

func distribution(h proxy.Histogram) *obs.Histogram {
	return &obs.Histogram{Counts: h.Counts, Sum: h.Sum.Seconds()}
}

// certificates are the figures of those that a gateway shows.
func certificates(g *wire.GatewayInfo) (out []obs.Sample) {
	if g == nil {
		return nil
	}
	for _, c := range g.Certificates {
		failed := 0.0
		if c.Failed {
			failed = 1
		}
		out = append(out, obs.Sample{
			Name:   "verge_gateway_certificate_failed",
			Help:   "1 where a host has no certificate, or none that could be renewed or used.",
			Labels: [][2]string{{"host", c.Host}, {"source", c.Source}}, Value: failed,
		})
		if !c.Expires.IsZero() {
			out = append(out, obs.Sample{
				Name:   "verge_gateway_certificate_expires_timestamp_seconds",
				Help:   "When the certificate of a host expires.",
				Labels: [][2]string{{"host", c.Host}, {"source", c.Source}}, Value: float64(c.Expires.Unix()),
			})
		}
	}
	return out
}
