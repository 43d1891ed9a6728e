package health

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
		want Checks
		err  string
	}{
		"nothing to check": {},
		"first port": {
			spec: api.Service{Ports: both},
			want: Checks{Readiness: &Check{Kind: Readiness, port: 1000, interval: 2 * second, Timeout: second,
				failures: 3}},
		},
		"http": {
			spec: api.Service{Ports: both,
				Readiness: &api.Check{HTTP: &api.HTTPCheck{Path: "/ok", Port: "admin"}, Interval: 5e9, Timeout: 3e9,
					Failures: 1}},
			want: Checks{Readiness: &Check{Kind: Readiness, port: 2000, Path: "/ok", interval: 5 * second,
				Timeout: 3 * second, failures: 1}},
		},
		"a path that would name a host": {
			spec: api.Service{Ports: both, Readiness: &api.Check{HTTP: &api.HTTPCheck{Path: "@example.com/"}}},
			want: Checks{Readiness: &Check{Kind: Readiness, port: 1000, Path: "/@example.com/", interval: 2 * second,
				Timeout: second, failures: 3}},
		},
		"all three, with their defaults": {
			spec: api.Service{
				Ports: both, Startup: &api.Check{HTTP: &api.HTTPCheck{Path: "/up"}},
				Readiness: &api.Check{TCP: &api.TCPCheck{Port: "admin"}},
				Liveness:  &api.Check{Exec: &api.ExecCheck{Command: []string{"look", "-q"}}},
			},
			want: Checks{
				Startup: &Check{Kind: Startup, port: 1000, Path: "/up", interval: 2 * second, Timeout: second,
					failures: 30},
				Readiness: &Check{Kind: Readiness, port: 2000, interval: 2 * second, Timeout: second, failures: 3},
				Liveness: &Check{Kind: Liveness, Command: []string{"look", "-q"}, interval: 10 * second,
					Timeout: second, failures: 3},
			},
		},
		"a command needs no port": {
			spec: api.Service{Readiness: &api.Check{Exec: &api.ExecCheck{Command: []string{"look"}}}},
			want: Checks{Readiness: &Check{Kind: Readiness, Command: []string{"look"}, interval: 2 * second,
				Timeout: second, failures: 3}},
		},
		"unknown port": {spec: api.Service{Ports: both, Readiness: &api.Check{TCP: &api.TCPCheck{Port: "x"}}},
			err: `readiness: the service has no port "x"`},
		"no port": {spec: api.Service{Liveness: &api.Check{TCP: &api.TCPCheck{}}},
			err: "liveness: the service has no port"},
		"an empty check": {spec: api.Service{Startup: &api.Check{Exec: &api.ExecCheck{}}},
			err: "startup: it has no command"},
	} {
		got, err := Of(&c.spec, ports)
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
func play(s *progress, start time.Time, d time.Duration, probe func(at time.Duration) error) (told []struct {
	at time.Duration
	v  Result
}, probes int) {
	at := s.first()
	for at <= d {
		probes++
		v, news, next := s.add(probe(at), start.Add(at))
		if news {
			told = append(told, struct {
				at time.Duration
				v  Result
			}{at, v})
		}
		if v.Final {
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
	c := Check{interval: 2 * time.Second, Timeout: time.Second, failures: 3}

	c.Kind = Startup
	told, _ := play(newProgress(c, false, start), start, time.Minute, after(300*time.Millisecond))
	if len(told) != 1 || !told[0].v.Pass || told[0].at > 500*time.Millisecond {
		t.Errorf("a start that takes 300 ms: %+v", told)
	}
	// It has as long as its failures take, and not a third of a second because it
	// is looked at often; and it is looked at as often as its failures say.
	told, probes := play(newProgress(c, false, start), start, time.Hour, until(0))
	last := len(told) - 1
	if last < 1 || last > 2 || told[0].v.Final || !told[last].v.Final || told[last].at < 6*time.Second ||
		told[last].at > 7*time.Second || probes > 30 {
		t.Errorf("a start that fails: %+v after %d probes", told, probes)
	}
	quick := c
	quick.interval = time.Millisecond
	if told, probes = play(newProgress(quick, false, start), start, time.Hour, until(0)); probes != 3 ||
		!told[len(told)-1].v.Final {
		t.Errorf("three failures: %+v after %d probes", told, probes)
	}
	// Who waits for it waits an eighth longer than it takes, or half a millisecond.
	for _, takes := range []time.Duration{0, time.Millisecond, 5 * time.Millisecond, 80 * time.Millisecond, time.Second} {
		awaited := c
		awaited.Kind, awaited.Quick = Readiness, true
		told, probes := play(newProgress(awaited, false, start), start, 2*time.Second, after(takes))
		if late := told[0].at - takes; !told[0].v.Pass || late > max(takes/8, quickProbe) || probes > 100 {
			t.Errorf("what takes %s and is waited for: %+v after %d probes", takes, told, probes)
		}
	}
	// A pause of this process is nobody's failure.
	s := newProgress(c, false, start)
	s.add(bad, start)
	s.add(bad, start.Add(time.Second))
	s.stalled(time.Hour, start.Add(time.Hour+time.Second))
	if v, _, _ := s.add(bad, start.Add(time.Hour+2*time.Second)); v.Final {
		t.Error("the time in which nobody looked was counted")
	}
	if v, _, _ := s.add(bad, start.Add(time.Hour+7*time.Second)); !v.Final {
		t.Error("after a pause it never fails")
	}

	c.Kind = Liveness
	told, _ = play(newProgress(c, true, start), start, time.Hour, until(11*time.Second))
	if len(told) != 1 || !told[0].v.Final || told[0].v.Why != "liveness tcp port 0: refused (3 in a row)" ||
		told[0].at != 16*time.Second {
		t.Errorf("what dies after 11 s: %+v", told)
	}
	n := 0
	told, _ = play(newProgress(c, true, start), start, time.Hour, func(time.Duration) error {
		if n++; n%3 != 0 {
			return bad
		}
		return nil
	})
	if len(told) != 0 {
		t.Errorf("never three in a row: %+v", told)
	}
	s = newProgress(c, true, start)
	for i := range 100 {
		if v, _, _ := s.add(bad, start.Add(time.Duration(i)*time.Hour)); v.Final && i == 0 {
			t.Fatalf("final after one: %+v", v)
		}
		if next := s.stalled(time.Hour, start.Add(time.Duration(i+1)*time.Hour)); next < 0 || next >= c.interval {
			t.Fatalf("it is looked at again in %s", next)
		}
	}
	if v, _, _ := s.add(bad, start); v.Final {
		t.Error("failures with pauses between them were counted together")
	}

	c.Kind = Readiness
	told, _ = play(newProgress(c, true, start), start, time.Minute, func(at time.Duration) error {
		if at > 10*time.Second && at < 20*time.Second {
			return bad
		}
		return nil
	})
	if len(told) != 2 || told[0].v.Pass || told[0].v.Final || told[0].at != 16*time.Second || !told[1].v.Pass ||
		told[1].at > 21*time.Second {
		t.Errorf("unready for a while: %+v", told)
	}

	// While it stays so the reason is told with what it counts, at longer and longer
	// intervals, and not at all once that changes no more. It is told no more often where
	// each answer is another one.
	c.Path = "/healthz"
	told, probes = play(newProgress(c, false, start), start, time.Hour,
		func(time.Duration) error { return errors.New(`503 "no data"`) })
	if last := len(told) - 1; probes < 1000 || last > 5 || told[0].at < time.Second || told[0].at > 2*time.Second ||
		told[last].at > time.Minute ||
		told[last].v.Why != `readiness http /healthz: 503 "no data" (60 of 60)` {
		t.Errorf("never ready: %+v", told)
	}
	n = 0
	told, _ = play(newProgress(c, false, start), start, time.Hour,
		func(time.Duration) error { n++; return fmt.Errorf(`503 "request %d"`, n) })
	if len(told) > 65 || len(told) < 50 {
		t.Errorf("an answer that is another one each time: told %d times in an hour", len(told))
	}
	told, _ = play(newProgress(c, true, start), start, time.Minute, until(10*time.Second))
	if !strings.HasSuffix(told[0].v.Why, "(3 of 7)") {
		t.Errorf("the first reason after it was ready: %+v", told[0])
	}

	// Commands are run less often than ports are tried.
	c.Command = []string{"look"}
	_, probes = play(newProgress(c, false, start), start, 20*time.Second, until(0))
	if probes > 16 {
		t.Errorf("%d commands in 20 s", probes)
	}
}
