package kubernetes

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/importer/draft"
	"github.com/verge-edge/verge/internal/importer/kubernetes/manifest"
	"github.com/verge-edge/verge/internal/importer/source"
	"github.com/verge-edge/verge/internal/k8s"
)

// health converts a container's probes. The defaults of Kubernetes are written out: they differ
// from Verge's.
func (g *group) health(w *workload, c *container, out *api.Service) {
	out.Startup = g.probe(w, c, "startupProbe", c.StartupProbe)
	out.Readiness = g.probe(w, c, "readinessProbe", c.ReadinessProbe)
	out.Liveness = g.probe(w, c, "livenessProbe", c.LivenessProbe)
	p := c.LivenessProbe
	if out.Liveness == nil || out.Startup != nil || p.InitialDelaySeconds <= 0 {
		return
	}
	// The liveness check would end an instance that is slow to start: give it as much time as
	// Kubernetes does.
	start := *out.Liveness
	period := time.Duration(start.Interval)
	delay := time.Duration(p.InitialDelaySeconds) * time.Second
	start.Failures = int(min((delay+period-1)/period+time.Duration(start.Failures), 1000))
	out.Startup = &start
	g.said(w.object, source.Extend(c.path, "livenessProbe", "initialDelaySeconds"),
		"becomes a check of its start, which has %s to pass", time.Duration(start.Failures)*period)
}

func (g *group) probe(w *workload, c *container, field string, p *k8s.Probe) *api.Check {
	if p == nil {
		return nil
	}
	o, at := w.object, source.Extend(c.path, field)
	if manifest.OneOf(g.report, o, at, "a probe", p.ProbeHandler) {
		return nil
	}
	check := &api.Check{}
	switch {
	case p.HTTPGet != nil:
		in := source.Extend(at, "httpGet")
		port, ok := g.probePort(w, c, source.Extend(in, "port"), p.HTTPGet.Port)
		if !ok {
			return nil
		}
		if strings.EqualFold(string(p.HTTPGet.Scheme), "HTTPS") {
			g.lost(o, source.Extend(in, "scheme"),
				"is not carried over: Verge asks without TLS, so that the check is that connections are accepted")
			check.TCP = &api.TCPCheck{Port: port}
			break
		}
		path := p.HTTPGet.Path
		if !strings.HasPrefix(path, "/") {
			path = "/" + path
		}
		check.HTTP = &api.HTTPCheck{Path: path, Port: port}
		if p.HTTPGet.Host != "" {
			g.lost(o, source.Extend(in, "host"), "is not carried over: the instance itself is asked")
		}
		if len(p.HTTPGet.HTTPHeaders) > 0 {
			g.lost(o, source.Extend(in, "httpHeaders"), "are not carried over: a check sends none of its own")
		}
	case p.TCPSocket != nil:
		port, ok := g.probePort(w, c, source.Extend(at, "tcpSocket", "port"), p.TCPSocket.Port)
		if !ok {
			return nil
		}
		check.TCP = &api.TCPCheck{Port: port}
		if p.TCPSocket.Host != "" {
			g.lost(o, source.Extend(at, "tcpSocket", "host"), "is not carried over: the instance itself is asked")
		}
	case p.GRPC != nil:
		port, ok := g.probePort(w, c, source.Extend(at, "grpc", "port"), intstr.FromInt32(p.GRPC.Port))
		if !ok {
			return nil
		}
		g.lost(o, source.Extend(at, "grpc"),
			"is not carried over: Verge has no check by gRPC, so that it is that connections are accepted")
		check.TCP = &api.TCPCheck{Port: port}
	case p.Exec != nil && len(p.Exec.Command) > 0:
		check.Exec = &api.ExecCheck{Command: draft.Literals(p.Exec.Command)}
	default:
		g.refuse(o, at, "Kubernetes would refuse it: the probe asks nothing (httpGet, tcpSocket, grpc or exec)")
		return nil
	}
	g.times(w, at, field, p, check)
	return check
}

func (g *group) times(w *workload, at []string, field string, p *k8s.Probe, check *api.Check) {
	o := w.object
	or := func(name string, v, otherwise int32) int32 {
		if v < 0 {
			g.refuse(o, source.Extend(at, name), "Kubernetes would refuse it: %d is less than none", v)
		}
		if v <= 0 {
			return otherwise
		}
		return v
	}
	interval := time.Duration(or("periodSeconds", p.PeriodSeconds, 10)) * time.Second
	timeout := time.Duration(or("timeoutSeconds", p.TimeoutSeconds, 1)) * time.Second
	check.Interval = draft.Clamp(g.report, o.Doc, source.Extend(at, "periodSeconds"), interval, 100*time.Millisecond,
		time.Hour)
	check.Timeout = draft.Clamp(g.report, o.Doc, source.Extend(at, "timeoutSeconds"), timeout, 10*time.Millisecond,
		5*time.Minute)
	check.Failures = int(or("failureThreshold", p.FailureThreshold, 3))
	if check.Failures > 1000 {
		check.Failures = 1000
		g.lost(o, source.Extend(at, "failureThreshold"), "is 1000, the most that Verge counts")
	}
	if field == "startupProbe" && p.InitialDelaySeconds > 0 {
		period := int(time.Duration(check.Interval) / time.Second)
		check.Failures = min(check.Failures+(int(p.InitialDelaySeconds)+period-1)/max(period, 1), 1000)
		g.said(o, source.Extend(at, "initialDelaySeconds"), "is part of the time that an instance has to start: %s",
			time.Duration(check.Failures)*time.Duration(check.Interval))
	}
	if field == "readinessProbe" && p.InitialDelaySeconds > 0 {
		g.said(o, source.Extend(at, "initialDelaySeconds"), "is not needed: an instance is ready as soon as it passes")
	}
	if p.SuccessThreshold > 1 {
		g.lost(o, source.Extend(at, "successThreshold"), "is not carried over: one that passes is enough")
	}
	if p.TerminationGracePeriodSeconds != nil {
		g.lost(o, source.Extend(at, "terminationGracePeriodSeconds"),
			"is not carried over: an instance is ended by its stop rule")
	}
}

// probePort returns the name of the port that a probe asks. It adds the port if the container
// does not list it.
func (g *group) probePort(w *workload, c *container, at []string, p intstr.IntOrString) (string, bool) {
	if p.Type == intstr.String {
		n, ok := c.byName[p.StrVal]
		if !ok {
			g.refuse(w.object, at, "Kubernetes would refuse it: the container has no port %s", source.Quote(p.StrVal))
			return "", false
		}
		return c.ports.Tcp(n).Name, true
	}
	if p.IntVal < 1 || p.IntVal > 65535 {
		g.refuse(w.object, at, "Kubernetes would refuse it: %d is not a port", p.IntVal)
		return "", false
	}
	return c.ports.Tcp(int(p.IntVal)).Name, true
}
