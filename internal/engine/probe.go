package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
)

// Pace of probes until an instance is ready: quick at first, because most start
// quickly and a deploy waits for it.
const (
	firstProbe  = 20 * time.Millisecond
	slowest     = 500 * time.Millisecond
	maxBody     = 64 << 10 // of an answer to a probe that is read
	maxFailures = 3        // the default of Check.Failures
)

// check is a readiness check with every default filled in. The zero check
// passes always.
type check struct {
	port     int
	path     string // HTTP path; "" is a TCP connect
	interval time.Duration
	timeout  time.Duration
	failures int
}

// checkOf returns the readiness check of a service whose ports are ports.
func checkOf(spec *api.Service, ports map[string]int) (check, error) {
	c := spec.Readiness
	if c == nil && len(spec.Ports) == 0 {
		return check{}, nil
	}
	if c == nil || (c.HTTP == nil && c.TCP == nil) {
		d := api.Check{TCP: &api.TCPCheck{}}
		if c != nil {
			d.Interval, d.Timeout, d.Failures = c.Interval, c.Timeout, c.Failures
		}
		c = &d
	}
	out := check{interval: c.Interval.Std(), timeout: c.Timeout.Std(), failures: c.Failures}
	if out.interval <= 0 {
		out.interval = api.DefaultInterval.Std()
	}
	if out.timeout <= 0 {
		out.timeout = api.DefaultTimeout.Std()
	}
	if out.failures <= 0 {
		out.failures = maxFailures
	}
	var name string
	if c.HTTP != nil {
		name, out.path = c.HTTP.Port, c.HTTP.Path
		// Without its slash a path could name another host.
		if !strings.HasPrefix(out.path, "/") {
			out.path = "/" + out.path
		}
	} else {
		name = c.TCP.Port
	}
	if name == "" {
		if len(spec.Ports) == 0 {
			return check{}, errors.New("readiness: the service has no port to check")
		}
		name = portName(&spec.Ports[0])
	}
	n, ok := ports[name]
	if !ok {
		return check{}, fmt.Errorf("readiness: the service has no port %q", name)
	}
	out.port = n
	return out, nil
}

// prober probes local ports. Probe returns nil if the check passed.
type prober interface {
	probe(ctx context.Context, c check) error
}

// netProber probes for real.
type netProber struct {
	dialer net.Dialer
	client *http.Client
}

func newNetProber() *netProber {
	return &netProber{client: &http.Client{
		// A connection that is kept would count as one more in the instance, and
		// hide that it does not accept new ones.
		Transport:     &http.Transport{DisableKeepAlives: true, Proxy: nil, MaxResponseHeaderBytes: maxBody},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// probe makes one check, within its timeout.
func (p *netProber) probe(ctx context.Context, c check) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(c.port))
	if c.path == "" {
		conn, err := p.dialer.DialContext(ctx, "tcp", addr)
		if err != nil {
			return fmt.Errorf("connect to port %d: %w", c.port, plain(err))
		}
		return conn.Close()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+c.path, nil)
	if err != nil {
		return fmt.Errorf("readiness path %q: %w", c.path, err)
	}
	req.Host = "127.0.0.1"
	req.Header.Set("User-Agent", "verge-probe")
	resp, err := p.client.Do(req)
	if err != nil {
		return fmt.Errorf("GET %s on port %d: %w", c.path, c.port, plain(err))
	}
	_, _ = io.CopyN(io.Discard, resp.Body, maxBody) // politeness only, its end does not matter
	_ = resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 399 {
		return fmt.Errorf("GET %s on port %d: status %d", c.path, c.port, resp.StatusCode)
	}
	return nil
}

// plain strips the addresses off a network error: the message names the port.
func plain(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

// verdict is a change of readiness; why says what the last probe found.
type verdict struct {
	ready bool
	why   string
}

// probing runs a check until ctx is done and calls tell with every change. Why
// an instance is not ready yet is told when it has taken about a second, so that
// an ordinary start makes one report and not two.
func probing(ctx context.Context, p prober, c check, tell func(verdict)) {
	ready, failed, pause, told := false, 0, firstProbe, ""
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		err := p.probe(ctx, c)
		if ctx.Err() != nil {
			return
		}
		switch {
		case err == nil:
			failed = 0
			if !ready {
				ready, pause, told = true, firstProbe, ""
				tell(verdict{ready: true})
			}
		case ready:
			if failed++; failed >= c.failures {
				ready, told = false, err.Error()
				tell(verdict{why: told})
			}
		case pause == slowest && err.Error() != told:
			told = err.Error()
			tell(verdict{why: told})
		}
		if ready {
			timer.Reset(c.interval)
			continue
		}
		timer.Reset(pause)
		pause = min(pause*3/2, slowest)
	}
}
