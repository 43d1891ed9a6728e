package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/rest/resttest"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Logs of several instances, and of the places where one was, are in the order of time; what
// one run wrote can be told from what the next did.
func TestLogsInTheOrderOfTime(t *testing.T) {
	at := func(offset int64, ms int) rpc.LogTime {
		return rpc.LogTime{Offset: offset, At: time.Date(2026, 11, 26, 12, 0, 0, ms*int(time.Millisecond), time.UTC)}
	}
	fake := world()
	fake.LogText = map[string]string{
		"guestbook.front.0": "a1\na2\na3\n", "guestbook.front.1": "b1\nb2\nb3", "guestbook.front.2": "",
	}
	fake.LogTimes = map[string][]rpc.LogTime{
		"guestbook.front.0": {at(0, 10), at(3, 30), at(6, 70)},
		"guestbook.front.1": {at(0, 20), at(6, 60)},
	}
	fake.FormerLogs = map[string][]resttest.FakeLog{
		"guestbook.front.0": {{Text: "w2\n", Times: []rpc.LogTime{at(0, 5)}},
			{Text: "w1\n", Times: []rpc.LogTime{at(0, 1)}}},
	}
	fake.PreviousLogs = map[string]string{"guestbook.front.1": "b0\nfatal: cannot open config\n"}
	f := newFixture(t, fake)
	stamp := func(ms string) string { return "2026-11-26T12:00:00." + ms + "Z " }
	for args, want := range map[string]string{
		"logs guestbook.front.0":          "w1\nw2\na1\na2\na3\n",
		"logs guestbook.front.0 --tail 4": "w2\na1\na2\na3\n",
		"logs guestbook.front.1 --timestamps": stamp("020") + "b1\n" + stamp("020") + "b2\n" + stamp("060") +
			"b3",
		"logs service/guestbook.front --no-prefix":   "w1\nw2\na1\nb1\nb2\na2\nb3\na3\n",
		"logs service/guestbook.front --tail 1":      "guestbook.front.1 | b3\nguestbook.front.0 | a3\n",
		"logs guestbook.front.1 --previous":          "b0\nfatal: cannot open config\n",
		"logs guestbook.front.0 -p":                  "w2\n", // it has not been started again here
		"logs guestbook.front.1 --previous --tail 1": "fatal: cannot open config\n",
	} {
		if r := f.run(strings.Fields(args)...); r.code != 0 || r.stdout != want {
			t.Errorf("%s: exit %d\n%s\nwant\n%s%s", args, r.code, r.stdout, want, r.stderr)
		}
	}
}
