package compose

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/compose-spec/compose-go/v2/types"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/importer/draft"
	"github.com/verge-edge/verge/internal/importer/report"
	"github.com/verge-edge/verge/internal/importer/source"
)

// health converts the health check. Docker's defaults are written out: they are slower than
// Verge's.
func (c *converter) health(name string, s types.ServiceConfig, out *api.Service) {
	h := s.HealthCheck
	if h == nil || h.Disable || len(h.Test) == 0 || h.Test[0] == "NONE" {
		return
	}
	check := &api.Check{Interval: api.Duration(30 * time.Second), Timeout: api.Duration(30 * time.Second), Failures: 3}
	switch h.Test[0] {
	case "CMD":
		check.Exec = &api.ExecCheck{Command: draft.Literals(h.Test[1:])}
	case "CMD-SHELL":
		check.Exec = &api.ExecCheck{Command: []string{"/bin/sh", "-c", draft.Literal(strings.Join(h.Test[1:], " "))}}
	default:
		check.Exec = &api.ExecCheck{Command: draft.Literals(h.Test)}
	}
	if len(check.Exec.Command) == 0 {
		c.lost(name, "is not carried over: it has no command", "healthcheck", "test")
		return
	}
	at := c.path(name, "healthcheck")
	if h.StartPeriod != nil && *h.StartPeriod > 0 {
		c.said(name, "is not needed: an instance is ready as soon as it passes", "healthcheck", "start_period")
	}
	if h.StartInterval != nil {
		c.said(name, "is not needed: an instance that starts is asked as often as one that runs", "healthcheck",
			"start_interval")
	}
	if h.Interval != nil && *h.Interval > 0 {
		check.Interval = draft.Clamp(c.report, c.doc, source.Extend(at, "interval"), time.Duration(*h.Interval),
			100*time.Millisecond, time.Hour)
	}
	if h.Timeout != nil && *h.Timeout > 0 {
		check.Timeout = draft.Clamp(c.report, c.doc, source.Extend(at, "timeout"), time.Duration(*h.Timeout),
			10*time.Millisecond, 5*time.Minute)
	}
	if h.Retries != nil && *h.Retries > 0 {
		if check.Failures = int(min(*h.Retries, draft.MaxTimes)); *h.Retries > draft.MaxTimes {
			c.lost(name, fmt.Sprintf("is %d, the most in Verge", draft.MaxTimes), "healthcheck", "retries")
		}
	}
	out.Readiness = check
}

func (c *converter) restart(name string, s types.ServiceConfig, out *api.Service) {
	policy, times, counted := strings.Cut(s.Restart, ":")
	n, err := strconv.Atoi(times)
	switch {
	case counted && (policy != "on-failure" || err != nil || n < 0):
		c.report.At(report.Refused, c.doc, c.path(name, "restart"),
			"is not a valid compose file: %s is not a policy (no, always, unless-stopped, on-failure, "+
				"on-failure:TIMES)",
			source.Quote(s.Restart))
	case policy == "no":
		out.Restart.Policy = "never"
	case policy == "on-failure":
		if out.Restart.Policy = policy; !counted {
			break
		}
		if n > draft.MaxTimes {
			n = draft.MaxTimes
			c.lost(name, fmt.Sprintf("is %d times, the most in Verge", draft.MaxTimes), "restart")
		}
		out.Restart.MaxRestarts = &n
	case policy != "" && policy != "always" && policy != "unless-stopped":
		c.report.At(report.Refused, c.doc, c.path(name, "restart"),
			"is not a valid compose file: %s is not a policy (no, always, unless-stopped, on-failure, "+
				"on-failure:TIMES)",
			source.Quote(s.Restart))
	}
	d := s.Deploy
	if d == nil || d.RestartPolicy == nil {
		return
	}
	p, at := d.RestartPolicy, c.path(name, "deploy", "restart_policy")
	switch p.Condition {
	case "none":
		out.Restart.Policy = "never"
	case "on-failure":
		out.Restart.Policy = "on-failure"
	case "", "any", "always", "unless-stopped":
	default:
		c.report.At(report.Lost, c.doc, source.Extend(at, "condition"),
			"is not carried over: %s is none (none, on-failure, any), and instances are started again whatever "+
				"they end with, as with docker compose", source.Quote(p.Condition))
	}
	if p.MaxAttempts != nil && out.Restart.Policy != "never" {
		n := int(min(*p.MaxAttempts, draft.MaxTimes))
		out.Restart.MaxRestarts = &n
		if *p.MaxAttempts > draft.MaxTimes {
			c.report.At(report.Lost, c.doc, source.Extend(at, "max_attempts"), "is %d, the most in Verge",
				draft.MaxTimes)
		}
	}
	if p.Delay != nil && *p.Delay > 0 {
		out.Restart.Delay = draft.Clamp(c.report, c.doc, source.Extend(at, "delay"), time.Duration(*p.Delay),
			time.Millisecond, time.Hour)
		out.Restart.MaxDelay = max(out.Restart.Delay, api.DefaultMaxDelay)
	}
	if p.Window != nil {
		c.report.At(report.Lost, c.doc, source.Extend(at, "window"),
			"is not carried over: a minute of calm ends a row of restarts")
	}
}

func (c *converter) stop(name string, s types.ServiceConfig, out *api.Service) {
	if s.StopSignal != "" {
		if sig := strings.TrimPrefix(strings.ToUpper(s.StopSignal), "SIG"); slices.Contains(draft.StopSignals, sig) {
			out.Stop.Signal = sig
		} else {
			c.lost(name, source.Quote(s.StopSignal)+" is not carried over: Verge sends "+
				strings.Join(draft.StopSignals, ", "),
				"stop_signal")
		}
	}
	if g := s.StopGracePeriod; g != nil {
		out.Stop.Grace = draft.Clamp(c.report, c.doc, c.path(name, "stop_grace_period"), time.Duration(*g),
			time.Millisecond,
			10*time.Minute)
	}
}
