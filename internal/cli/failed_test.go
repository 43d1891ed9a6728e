package cli

import (
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/rest/resttest"
)

// A wait ends where it is known that what was applied has failed, with the reason.
func TestApplyThatHasFailed(t *testing.T) {
	d := newDeployment()
	d.hang = 4
	d.fake.Hook = func(hook func(*resttest.Fake, string) error) func(*resttest.Fake, string) error {
		return func(f *resttest.Fake, op string) error {
			err := hook(f, op)
			if op == "application" && d.steps == d.hang {
				f.Apps[0].Services[0].Failed = "hello.web.0: exit code 3, gave up here after 5 restarts in a row"
			}
			return err
		}
	}(d.fake.Hook)
	f := newFixture(t, d.fake)
	slept := 0
	f.onSleep = func() { slept++ }
	r := f.runWith(hello, "apply", "-", "--timeout", "1h")
	if r.code != 2 || !strings.Contains(r.stderr,
		"application/hello was accepted, but has failed: service web: hello.web.0: exit code 3, gave up here after 5 "+
			"restarts in a row\n") {
		t.Errorf("%+v", r)
	}
	if slept > d.hang {
		t.Errorf("it waited %d times", slept)
	}
}

// Numbers say how many of those that are to be are ready: not more than all, and nothing of
// what sleeps or runs by a schedule.
func TestReadyWords(t *testing.T) {
	t.Parallel()
	schedule := &apiv1.JobView{Completions: 1, Schedule: "@daily"}
	for name, c := range map[string]struct {
		list        []apiv1.ServiceView
		table, said string
	}{
		"all":     {[]apiv1.ServiceView{{Wanted: 3, Ready: 3}}, "3/3", "3/3 instances ready"},
		"some":    {[]apiv1.ServiceView{{Wanted: 3, Ready: 1}}, "1/3", "1/3 instances ready"},
		"a surge": {[]apiv1.ServiceView{{Wanted: 3, Ready: 4}}, "3/3", "3/3 instances ready"},
		"its requests decide": {[]apiv1.ServiceView{{Wanted: 2, Ready: 4, Most: 9}, {Wanted: 5, Ready: 5}}, "9/9",
			"9/9 instances ready"},
		"too few of them": {[]apiv1.ServiceView{{Wanted: 2, Ready: 1, Most: 9}}, "1/2", "1/2 instances ready"},
		"asleep":          {[]apiv1.ServiceView{{Most: 4, Asleep: 1}}, "asleep", "1 asleep until a request comes"},
		"asleep beside": {[]apiv1.ServiceView{{Most: 4, Asleep: 1}, {Wanted: 1, Ready: 1}}, "1/1",
			"1/1 instances ready, 1 asleep until a request comes"},
		"a schedule": {[]apiv1.ServiceView{{Name: "nightly", Wanted: 1, Job: schedule}}, "-",
			"nightly runs by its schedule"},
		"a job": {[]apiv1.ServiceView{{Wanted: 2, Job: &apiv1.JobView{Completions: 8, Completed: 3}}},
			"3/8", "3/8 instances ready"},
		"nothing": {nil, "-", "nothing to run"},
	} {
		if table, said := readyOf(c.list), readyWords(c.list); table != c.table || said != c.said {
			t.Errorf("%s: %q and %q, want %q and %q", name, table, said, c.table, c.said)
		}
	}
	if got := missingParts(&apiv1.AppView{Services: []apiv1.ServiceView{{Name: "nightly", Wanted: 1,
		Job: schedule}}}); strings.Contains(got, "0 of 1") {
		t.Errorf("of a schedule: %q", got)
	}
}
