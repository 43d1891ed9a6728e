package cli

import (
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/rest/resttest"
	"github.com/verge-edge/verge/internal/wire"
)

func TestLogsOfSeveral(t *testing.T) {
	fake := world()
	fake.LogText["guestbook.front.0"] = "one\ntwo\nthree\n"
	fake.LogText["guestbook.front.1"] = "uno\ndos\nno end"
	fake.LogText["guestbook.front.2"] = ""
	fake.LogSince = map[string]int64{"guestbook.store.0": 28}
	f := newFixture(t, fake)
	for name, line := range map[string]string{
		"logs-since":       "logs guestbook.store --since 10m",
		"logs-since-bad":   "logs guestbook.store --since -1m",
		"logs-service":     "logs service/guestbook.front --tail 2",
		"logs-application": "logs application/guestbook --tail 1",
		"logs-no-prefix":   "logs svc guestbook.front --no-prefix",
		"logs-prefix":      "logs guestbook.store --prefix",
		"logs-missing-app": "logs application/nothing",
		"logs-not-service": "logs service/guestbook",
		"logs-wrong-kind":  "logs worker/edge/w1",
		"logs-opposites":   "logs guestbook.store --prefix --no-prefix",
		"logs-none":        "logs application/hello",
	} {
		args := strings.Fields(line)
		f.golden(name, f.run(args...), args...)
	}
	fake.Change(func(f *resttest.Fake) { delete(f.LogText, "guestbook.front.1") })
	f.golden("logs-some-fail", f.run("logs", "application/guestbook", "--tail", "1"), "logs", "application/guestbook",
		"--tail", "1")
}

// All at once, also what comes later, until the application is gone; an instance
// that goes on elsewhere is read from its beginning there.
func TestLogsFollowSeveral(t *testing.T) {
	fake := world()
	fake.InstanceList = fake.InstanceList[:2]
	fake.LogText = map[string]string{"guestbook.front.0": "one\n", "guestbook.front.1": ""}
	f := newFixture(t, fake)
	l := f.begin("logs", "application/guestbook", "-f")
	l.until("guestbook.front.0 | one\n")
	change := func(do func(f *resttest.Fake)) { f.fake.Change(do) }
	change(func(f *resttest.Fake) { f.LogText["guestbook.front.1"] += "uno\nd" })
	l.until("guestbook.front.1 | uno\n")
	change(func(f *resttest.Fake) { f.LogText["guestbook.front.1"] += "os\n" })
	l.until("guestbook.front.1 | dos\n")
	change(func(f *resttest.Fake) {
		i := f.InstanceList[1]
		i.Instance.ID = "guestbook.front.2"
		f.InstanceList = append(f.InstanceList, i)
		f.LogText["guestbook.front.2"] = "late\n"
	})
	l.until("guestbook.front.2 | late\n")
	change(func(f *resttest.Fake) { f.LogText["guestbook.front.1"] = "new\n" })
	l.until("guestbook.front.1 has a new log now")
	l.until("guestbook.front.1 | new\n")
	change(func(f *resttest.Fake) { f.InstanceList = f.InstanceList[1:] })
	l.until("guestbook.front.0 is gone\n")
	change(func(f *resttest.Fake) { f.InstanceList, f.Apps = nil, nil })
	if code, rest := l.over(); code != 0 || !strings.Contains(rest, "guestbook.front.1 is gone\n") {
		t.Errorf("ended with %d, %q", code, rest)
	}
}

// A log that cannot be read for a while is followed when it can be again.
func TestLogsFollowOverAnAbsence(t *testing.T) {
	fake := world()
	reads := 0
	fake.Hook = func(f *resttest.Fake, op string) error {
		if op != "logs" {
			return nil
		}
		switch reads++; { // the first asks for a former log, and finds none
		case reads == 2:
			return wire.Problemf(409, "not-placed", "", "there is no log yet", "it is on no worker")
		case reads > 3 && reads < 7:
			return wire.Problemf(503, "cluster-away", "", "the log cannot be read now", "cluster edge does not answer")
		case reads == 9:
			f.LogText["guestbook.front.0"] += "two\n"
		}
		return nil
	}
	fake.LogText["guestbook.front.0"] = "one\n"
	f := newFixture(t, fake)
	l := f.begin("logs", "guestbook.front.0", "-f")
	if got := l.until("two\n"); strings.Count(got, "trying again") != 2 || strings.Count(got, "one\n") != 1 {
		t.Errorf("%s", got)
	}
	if code, rest := l.end(); code != 0 || rest != "" {
		t.Errorf("ended with %d, %q", code, rest)
	}
	fake.Change(func(f *resttest.Fake) {
		f.Hook = func(_ *resttest.Fake, op string) error {
			if op == "logs" {
				return wire.Problemf(503, "cluster-away", "", "the log cannot be read now",
					"cluster edge does not answer")
			}
			return nil
		}
	})
	if r := f.run("logs", "guestbook.front.0"); r.code != 1 || !strings.Contains(r.stderr, "does not answer") {
		t.Errorf("without -f: %+v", r)
	}
}
