package engine

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
)

func TestChecksOf(t *testing.T) {
	t.Parallel()
	ports := map[string]int{"http": 1000, "admin": 2000}
	both := []api.Port{{Name: "http"}, {Name: "admin"}}
	const second = time.Second
	for name, c := range map[string]struct {
		spec api.Service
		want checks
		err  string
	}{
		"nothing to check": {},
		"first port": {
			spec: api.Service{Ports: both},
			want: checks{readiness: &check{kind: readinessCheck, port: 1000, interval: 2 * second, timeout: second, failures: 3}},
		},
		"http": {
			spec: api.Service{Ports: both, Readiness: &api.Check{HTTP: &api.HTTPCheck{Path: "/ok", Port: "admin"}, Interval: 5e9, Timeout: 3e9, Failures: 1}},
			want: checks{readiness: &check{kind: readinessCheck, port: 2000, path: "/ok", interval: 5 * second, timeout: 3 * second, failures: 1}},
		},
		"a path that would name a host": {
			spec: api.Service{Ports: both, Readiness: &api.Check{HTTP: &api.HTTPCheck{Path: "@example.com/"}}},
			want: checks{readiness: &check{kind: readinessCheck, port: 1000, path: "/@example.com/", interval: 2 * second, timeout: second, failures: 3}},
		},
		"all three, with their defaults": {
			spec: api.Service{
				Ports: both, Startup: &api.Check{HTTP: &api.HTTPCheck{Path: "/up"}},
				Readiness: &api.Check{TCP: &api.TCPCheck{Port: "admin"}}, Liveness: &api.Check{Exec: &api.ExecCheck{Command: []string{"look", "-q"}}},
			},
			want: checks{
				startup:   &check{kind: startupCheck, port: 1000, path: "/up", interval: 2 * second, timeout: second, failures: 30},
				readiness: &check{kind: readinessCheck, port: 2000, interval: 2 * second, timeout: second, failures: 3},
				liveness:  &check{kind: livenessCheck, command: []string{"look", "-q"}, interval: 10 * second, timeout: second, failures: 3},
			},
		},
		"a command needs no port": {
			spec: api.Service{Readiness: &api.Check{Exec: &api.ExecCheck{Command: []string{"look"}}}},
			want: checks{readiness: &check{kind: readinessCheck, command: []string{"look"}, interval: 2 * second, timeout: second, failures: 3}},
		},
		"unknown port":   {spec: api.Service{Ports: both, Readiness: &api.Check{TCP: &api.TCPCheck{Port: "x"}}}, err: `readiness: the service has no port "x"`},
		"no port":        {spec: api.Service{Liveness: &api.Check{TCP: &api.TCPCheck{}}}, err: "liveness: the service has no port"},
		"an empty check": {spec: api.Service{Startup: &api.Check{Exec: &api.ExecCheck{}}}, err: "startup: it has no command"},
	} {
		got, err := checksOf(&c.spec, ports)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, c.want)
		}
	}
}

// play gives a course what its probes find, at the pace that it asks for, until
// it has told something final, or for long enough. It returns when what was told.
func play(s *course, start time.Time, d time.Duration, probe func(at time.Duration) error) (told []struct {
	at time.Duration
	v  verdict
}, probes int) {
	at := s.first()
	for at <= d {
		probes++
		v, news, next := s.took(probe(at), start.Add(at))
		if news {
			told = append(told, struct {
				at time.Duration
				v  verdict
			}{at, v})
		}
		if v.final {
			break
		}
		at += next
	}
	return told, probes
}

func TestCourse(t *testing.T) {
	t.Parallel()
	start := time.Unix(1000, 0)
	bad := errors.New("refused")
	after := func(d time.Duration) func(time.Duration) error {
		return func(at time.Duration) error {
			if at < d {
				return bad
			}
			return nil
		}
	}
	until := func(d time.Duration) func(time.Duration) error {
		return func(at time.Duration) error {
			if at < d {
				return nil
			}
			return bad
		}
	}
	c := check{interval: 2 * time.Second, timeout: time.Second, failures: 3}

	c.kind = startupCheck
	told, _ := play(newCourse(c, false, start), start, time.Minute, after(300*time.Millisecond))
	if len(told) != 1 || !told[0].v.pass || told[0].at > 500*time.Millisecond {
		t.Errorf("a start that takes 300 ms: %+v", told)
	}
	// It has as long as its failures take, and not a third of a second because it
	// is looked at often; and it is looked at as often as its failures say.
	told, probes := play(newCourse(c, false, start), start, time.Hour, until(0))
	last := len(told) - 1
	if last < 1 || last > 2 || told[0].v.final || !told[last].v.final || told[last].at < 6*time.Second || told[last].at > 7*time.Second || probes > 30 {
		t.Errorf("a start that fails: %+v after %d probes", told, probes)
	}
	quick := c
	quick.interval = time.Millisecond
	if told, probes = play(newCourse(quick, false, start), start, time.Hour, until(0)); probes != 3 || !told[len(told)-1].v.final {
		t.Errorf("three failures: %+v after %d probes", told, probes)
	}
	// A pause of this process is nobody's failure.
	s := newCourse(c, false, start)
	s.took(bad, start)
	s.took(bad, start.Add(time.Second))
	s.stalled(time.Hour)
	if v, _, _ := s.took(bad, start.Add(time.Hour+2*time.Second)); v.final {
		t.Error("the time in which nobody looked was counted")
	}
	if v, _, _ := s.took(bad, start.Add(time.Hour+7*time.Second)); !v.final {
		t.Error("after a pause it never fails")
	}

	c.kind = livenessCheck
	told, _ = play(newCourse(c, true, start), start, time.Hour, until(11*time.Second))
	if len(told) != 1 || !told[0].v.final || told[0].v.why != "liveness tcp port 0: refused (3 in a row)" || told[0].at != 16*time.Second {
		t.Errorf("what dies after 11 s: %+v", told)
	}
	n := 0
	told, _ = play(newCourse(c, true, start), start, time.Hour, func(time.Duration) error {
		if n++; n%3 != 0 {
			return bad
		}
		return nil
	})
	if len(told) != 0 {
		t.Errorf("never three in a row: %+v", told)
	}
	s = newCourse(c, true, start)
	for i := range 100 {
		if v, _, _ := s.took(bad, start.Add(time.Duration(i)*time.Hour)); v.final && i == 0 {
			t.Fatalf("final after one: %+v", v)
		}
		if next := s.stalled(time.Hour); next < 0 || next >= c.interval {
			t.Fatalf("it is looked at again in %s", next)
		}
	}
	if v, _, _ := s.took(bad, start); v.final {
		t.Error("failures with pauses between them were counted together")
	}

	c.kind = readinessCheck
	told, _ = play(newCourse(c, true, start), start, time.Minute, func(at time.Duration) error {
		if at > 10*time.Second && at < 20*time.Second {
			return bad
		}
		return nil
	})
	if len(told) != 2 || told[0].v.pass || told[0].v.final || told[0].at != 16*time.Second || !told[1].v.pass || told[1].at > 21*time.Second {
		t.Errorf("unready for a while: %+v", told)
	}

	// While it stays so the reason is told with what it counts, at longer and longer
	// intervals, and not at all once that changes no more. It is told no more often where
	// each answer is another one.
	c.path = "/healthz"
	told, probes = play(newCourse(c, false, start), start, time.Hour, func(time.Duration) error { return errors.New(`503 "no data"`) })
	if last := len(told) - 1; probes < 1000 || last > 5 || told[0].at < time.Second || told[0].at > 2*time.Second || told[last].at > time.Minute ||
		told[last].v.why != `readiness http /healthz: 503 "no data" (60 of 60)` {
		t.Errorf("never ready: %+v", told)
	}
	n = 0
	told, _ = play(newCourse(c, false, start), start, time.Hour, func(time.Duration) error { n++; return fmt.Errorf(`503 "request %d"`, n) })
	if len(told) > 65 || len(told) < 50 {
		t.Errorf("an answer that is another one each time: told %d times in an hour", len(told))
	}
	told, _ = play(newCourse(c, true, start), start, time.Minute, until(10*time.Second))
	if !strings.HasSuffix(told[0].v.why, "(3 of 7)") {
		t.Errorf("the first reason after it was ready: %+v", told[0])
	}

	// Commands are run less often than ports are tried.
	c.command = []string{"look"}
	_, probes = play(newCourse(c, false, start), start, 20*time.Second, until(0))
	if probes > 16 {
		t.Errorf("%d commands in 20 s", probes)
	}
}
