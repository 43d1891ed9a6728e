package proxy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	orcapb "github.com/cncf/xds/go/xds/data/orca/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	grpcorca "google.golang.org/grpc/orca"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/orca"
	"github.com/verge-edge/verge/internal/proxy/httpmsg"
	"github.com/verge-edge/verge/internal/wire"
)

// TestGatewayLoadReport: whatever form a service gives its report, strangers get it only
// where its owner wants that.
func TestGatewayLoadReport(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a, b := newWorker(t, ca, "a", nil), newWorker(t, ca, "b", nil)
	bin := (&orca.Report{CPU: 0.5}).AppendBinary(nil)
	h := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/text":
			w.Header().Set(orca.Header, "TEXT cpu_utilization=0.5")
		case "/json":
			w.Header().Set(orca.Header, `JSON {"cpu_utilization": 0.5}`)
		case "/bin":
			w.Header().Set(orca.Trailer, string(bin))
		case "/trailer":
			w.Header().Set("Trailer", orca.Header+", X-Sum")
			_, _ = io.WriteString(w, "ok")
			w.Header().Set(orca.Header, "TEXT cpu_utilization=0.5")
			w.Header().Set("X-Sum", "1")
			return
		case "/invalid":
			w.Header().Set(orca.Header, "TEXT cpu_utilization=NaN")
		}
		_, _ = io.WriteString(w, "ok")
	})
	a.addHTTP(t, "app.web.0", h)
	b.addHTTP(t, "app.web.1", h)
	for name, end := range map[string]wire.Endpoint{"here": a.endpoint("app.web.0"), "there": b.endpoint("app.web.1")} {
		for _, asked := range []bool{false, true} {
			rt := hostRoute("app.test", end)
			rt.Ports[0].Ingress.LoadReport = asked
			a.SetRoutes([]wire.Route{rt})
			for _, path := range []string{"/none", "/text", "/json", "/bin", "/trailer", "/invalid"} {
				t.Run(fmt.Sprintf("%s/%v%s", name, asked, path), func(t *testing.T) {
					res, _ := fetch(t, client(t), a.request(t, http.MethodGet, "app.test", path, nil))
					for _, h := range []http.Header{res.Header, res.Trailer} {
						if len(h[orca.Trailer]) != 0 || !asked && len(h[orca.Header]) != 0 {
							t.Errorf("the client got %v", h)
						}
					}
					if path == "/trailer" && res.Trailer.Get("X-Sum") != "1" {
						t.Errorf("another trailer is lost: %v", res.Trailer)
					}
					if !asked {
						return
					}
					r, err := orca.Parse(res.Header.Get(orca.Header))
					if _, ok := httpmsg.QueueMetrics(&r); err != nil || !ok {
						t.Fatalf("report %q: %v", res.Header.Get(orca.Header), err)
					}
					if said := path == "/text" || path == "/json" || path == "/bin"; said != (r.CPU == 0.5) {
						t.Errorf("cpu is %g", r.CPU)
					}
				})
			}
		}
	}
	if n, m := a.Stats().InvalidReports, b.Stats().InvalidReports; n+m != 4 {
		t.Errorf("%d and %d invalid reports, want four in all", n, m)
	}
}

// TestGRPCLoadReport: a server and a client of gRPC with its package for ORCA, whose
// reports travel in trailers.
func TestGRPCLoadReport(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a, b := newWorker(t, ca, "a", nil), newWorker(t, ca, "b", nil)
	here, there := orcaServer(t, 0.25), orcaServer(t, 0.75)
	a.engine.set("app.web.0", here, nil)
	b.engine.set("app.web.1", there, nil)
	for _, c := range []struct {
		name    string
		end     wire.Endpoint
		cpu     float64
		gateway bool
		asked   bool
	}{
		{"entry, here", a.endpoint("app.web.0"), 0.25, false, false},
		{"entry, there", b.endpoint("app.web.1"), 0.75, false, false},
		{"gateway", b.endpoint("app.web.1"), 0.75, true, false},
		{"gateway, asked for", b.endpoint("app.web.1"), 0.75, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			rt := requestRoute("grpc", wire.RequestRules{}, c.end)
			rt.Ports[0].Ingress = &api.Ingress{Host: "app.test", LoadReport: c.asked}
			a.SetRoutes([]wire.Route{rt})
			b.SetRoutes([]wire.Route{rt})
			to := a.addr(t, "grpc")
			if c.gateway {
				to = a.GatewayAddr()
			}
			conn := orcaClient(t, to)
			call := func(service string) *orcapb.OrcaLoadReport {
				_, _ = healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{Service: service})
				r, _ := (<-grpcLoads).(*orcapb.OrcaLoadReport)
				return r
			}
			for service, cpu := range map[string]float64{"": c.cpu,
				"unknown": c.cpu} { // the second one has trailers only
				r := call(service)
				if c.gateway && !c.asked {
					if r != nil {
						t.Errorf("%q: a stranger was told %v", service, r)
					}
					continue
				}
				if r.GetCpuUtilization() != cpu {
					t.Errorf("%q: the client was told %v", service, r)
				}
				for _, name := range []string{httpmsg.MetricQueue, httpmsg.MetricInFlight, httpmsg.MetricRate,
					httpmsg.MetricConfidence, httpmsg.MetricExec} {
					if _, ok := r.GetNamedMetrics()[name]; !ok {
						t.Errorf("%q: no %s in %v", service, name, r)
					}
				}
			}
			// What the trailers said is what the router knows.
			s := a.services.Find("app.web")
			if got := s.ReportOf(s.All()[0]).CPU; got != c.cpu {
				t.Errorf("the router has learnt %g", got)
			}
		})
	}
	if n, m := a.Stats().InvalidReports, b.Stats().InvalidReports; n+m != 0 {
		t.Errorf("%d and %d invalid reports", n, m)
	}
}

// TestInvalidGRPCReports are counted and hurt nobody.
func TestInvalidGRPCReports(t *testing.T) {
	t.Parallel()
	a := newWorker(t, newAuthority(t), "a", nil)
	long := strings.Repeat("A", 8<<10)
	trailers := map[string][]string{"/damaged": {"%%%"}, "/long": {long}, "/twice": {"", ""},
		"/negative": {"CQAAAAAAAPC/"}}
	a.addHTTP(t, "app.web.0", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		_, _ = w.Write(make([]byte, 5))
		w.Header()[http.TrailerPrefix+orca.Trailer] = trailers[req.URL.Path]
		w.Header()[http.TrailerPrefix+"Grpc-Status"] = []string{"0"}
	}))
	rt := requestRoute("grpc", wire.RequestRules{}, a.endpoint("app.web.0"))
	a.SetRoutes([]wire.Route{rt})
	n := uint64(0)
	for path := range trailers {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.entryURL(t, "grpc", path), nil)
		must(t, err)
		req.Header.Set("Content-Type", "application/grpc")
		res, body := fetch(t, h2Client(t), req)
		if n++; a.Stats().InvalidReports != n {
			t.Errorf("%s: %d are counted, want %d", path, a.Stats().InvalidReports, n)
		}
		r, err := orca.ParseTrailer(res.Trailer.Get(orca.Trailer))
		if _, ok := httpmsg.QueueMetrics(&r); err != nil || !ok || len(body) != 5 ||
			res.Trailer.Get("Grpc-Status") != "0" {
			t.Errorf("%s: %v, %v, %q", path, err, res.Trailer, body)
		}
	}
}

// Ask calls a server of gRPC as its clients do.
func TestAskGRPC(t *testing.T) {
	t.Parallel()
	a := newWorker(t, newAuthority(t), "a", nil)
	a.engine.set("app.web.0", orcaServer(t, 0.5), nil)
	rt := requestRoute("grpc", wire.RequestRules{}, a.endpoint("app.web.0"))
	a.SetRoutes([]wire.Route{rt})
	for path, want := range map[string]string{"/grpc.health.v1.Health/Check": "",
		"/grpc.health.v1.Health/None": "gRPC status 12"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://app.web"+path,
			bytes.NewReader(make([]byte, 5)))
		must(t, err)
		req.Header.Set("Content-Type", "application/grpc")
		req.Header.Set("Te", "trailers")
		status, err := a.Ask("app.web.0", "grpc", req)
		if status != http.StatusOK || want == "" && err != nil || want != "" &&
			(err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %d %v", path, status, err)
		}
	}
}

// orcaServer is a server of gRPC that reports its load.
func orcaServer(t *testing.T, cpu float64) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	srv := grpc.NewServer(grpcorca.CallMetricsServerOption(nil), grpc.ChainUnaryInterceptor(
		func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			grpcorca.CallMetricsRecorderFromContext(ctx).SetCPUUtilization(cpu)
			return handler(ctx, req)
		}))
	healthpb.RegisterHealthServer(srv, health.NewServer())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(ln) // ends with the server
	}()
	t.Cleanup(func() {
		srv.Stop()
		<-done
	})
	return ln.Addr().String()
}

// grpcLoads are what the balancer of orcaClient was told, one for each call.
var grpcLoads = make(chan any, 1)

func init() {
	balancer.Register(base.NewBalancerBuilder("verge-loads", loadPicker{}, base.Config{})) // not to be done later
}

// orcaClient is a client of gRPC whose balancer tells grpcLoads.
func orcaClient(t *testing.T, addr string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("app.test"),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"verge-loads": {}}]}`))
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// loadPicker picks the only connection.
type loadPicker struct{ conn balancer.SubConn }

// Build implements base.PickerBuilder.
func (loadPicker) Build(info base.PickerBuildInfo) balancer.Picker {
	for c := range info.ReadySCs {
		return loadPicker{c}
	}
	return base.NewErrPicker(balancer.ErrNoSubConnAvailable)
}

// Pick implements balancer.Picker.
func (p loadPicker) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	return balancer.PickResult{SubConn: p.conn, Done: func(d balancer.DoneInfo) { grpcLoads <- d.ServerLoad }}, nil
}
