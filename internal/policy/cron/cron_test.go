package cron

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

func rules(t interface{ Fatal(...any) }, fields, zone, concurrency, missed string) Rules {
	s, err := api.ParseSchedule(fields, zone)
	if err != nil {
		t.Fatal(err)
	}
	return Rules{s, concurrency, missed}
}

func at(text string) time.Time {
	v, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return v.UTC()
}

// What becomes of times that were missed, by the policy.
func TestMissed(t *testing.T) {
	for _, c := range []struct {
		missed, now string
		begin       []string // one after the other ends
		count       uint64
	}{
		{api.MissedSkip, "2026-11-23T15:30:00Z", nil, 3},
		{api.MissedOnce, "2026-11-23T15:30:00Z", []string{"15"}, 3},
		{api.MissedAll, "2026-11-23T15:30:00Z", []string{"13", "14", "15"}, 3},
		{api.MissedSkip, "2026-11-23T15:00:30Z", []string{"15"}, 2}, // the last is on time
		{api.MissedOnce, "2026-11-23T15:00:30Z", []string{"15"}, 2},
		{api.MissedAll, "2026-11-23T15:00:30Z", []string{"13", "14", "15"}, 2},
		{api.MissedOnce, "2026-11-23T12:59:59Z", nil, 0},
	} {
		r := rules(t, "0 * * * *", "", api.CronForbid, c.missed)
		s := Start("r", nil, at("2026-11-23T12:00:00Z"))
		var begun []string
		for range 5 {
			d := Decide(r, s, Now{At: at(c.now)})
			s = d.State
			if !d.Begin.IsZero() {
				begun = append(begun, d.Begin.Format("15"))
				// While it goes on the next one waits.
				d = Decide(r, s, Now{At: at(c.now), Running: true})
				if s = d.State; !d.Begin.IsZero() {
					t.Errorf("%+v: %s begins while another goes on", c, d.Begin)
				}
			}
			if want := at(c.now).Truncate(time.Hour).Add(time.Hour); !d.Wake.Equal(want) {
				t.Errorf("%+v: looks again at %s, want %s", c, d.Wake, want)
			}
		}
		if strings.Join(begun, " ") != strings.Join(c.begin, " ") || s.Missed != c.count {
			t.Errorf("%+v: %v began, %d missed", c, begun, s.Missed)
		}
	}
}

// What becomes of a time that comes while a run goes on.
func TestConcurrency(t *testing.T) {
	now := Now{At: at("2026-11-23T13:00:01Z"), Running: true}
	s := Start("r", nil, at("2026-11-23T12:00:00Z"))
	d := Decide(rules(t, "0 * * * *", "", api.CronForbid, api.MissedOnce), s, now)
	if !d.Begin.IsZero() || d.State.Skipped != 1 || d.State.Missed != 0 || len(d.Said) != 1 {
		t.Errorf("forbid: %+v", d)
	}
	now.Running = false
	if d = Decide(rules(t, "0 * * * *", "", api.CronForbid, api.MissedOnce), d.State, now); !d.Begin.IsZero() {
		t.Errorf("what was skipped begins later: %+v", d)
	}
	now.Running = true
	if d = Decide(rules(t, "0 * * * *", "", api.CronReplace, api.MissedOnce), s, now); !d.Begin.Equal(at("2026-11-23T13:00:00Z")) {
		t.Errorf("replace: %+v", d)
	}
}

// What is suspended begins nothing, and misses nothing.
func TestSuspended(t *testing.T) {
	r := rules(t, "0 * * * *", "", api.CronForbid, api.MissedAll)
	d := Decide(r, Start("r", nil, at("2026-11-23T12:00:00Z")), Now{At: at("2026-11-23T15:30:00Z"), Suspended: true})
	if d = Decide(r, d.State, Now{At: at("2026-11-23T15:31:00Z")}); !d.Begin.IsZero() || d.State.Missed != 0 {
		t.Errorf("%+v", d)
	}
}

// A machine that began in 1970 and then heard what time it is.
func TestClockFromTheEpoch(t *testing.T) {
	r := rules(t, "* * * * *", "Europe/Berlin", api.CronForbid, api.MissedAll)
	d := Decide(r, Start("r", nil, time.Unix(5, 0)), Now{At: at("2026-11-23T15:30:30Z")})
	if len(d.State.Pending) != MaxPending || d.Begin.IsZero() || len(d.Said) != 1 || !strings.Contains(d.Said[0], "more before them") {
		t.Errorf("%d pending, %v", len(d.State.Pending), d.Said)
	}
}

// A schedule that another cluster had begins no run of the time before.
func TestTakenOver(t *testing.T) {
	r := rules(t, "0 * * * *", "", api.CronForbid, api.MissedOnce)
	s := TakenOver("r", at("2026-11-23T14:00:00Z"), nil, at("2026-11-23T12:58:00Z"))
	// This cluster's clock is behind.
	if d := Decide(r, s, Now{At: at("2026-11-23T12:59:00Z")}); !d.Begin.IsZero() {
		t.Errorf("it begins %s", d.Begin)
	} else if d = Decide(r, d.State, Now{At: at("2026-11-23T14:00:10Z")}); !d.Begin.IsZero() {
		t.Errorf("it begins %s again", d.Begin)
	} else if d = Decide(r, d.State, Now{At: at("2026-11-23T15:00:10Z")}); !d.Begin.Equal(at("2026-11-23T15:00:00Z")) {
		t.Errorf("it begins %s, want 15:00", d.Begin)
	}
}

// Who had a schedule before cannot stop it for long, nor let runs begin before their time.
func TestTakenOverFromTheFuture(t *testing.T) {
	r := rules(t, "0 * * * *", "", api.CronForbid, api.MissedAll)
	now := at("2026-11-23T12:59:00Z")
	far := at("2999-01-01T00:00:00Z")
	s := TakenOver("r", far, []time.Time{at("2026-11-23T11:00:00Z"), far}, now)
	if d := Decide(r, s, Now{At: now}); !d.Begin.Equal(at("2026-11-23T11:00:00Z")) || len(d.State.Pending) != 0 {
		t.Errorf("it begins %s, then %v", d.Begin, d.State.Pending)
	} else if d = Decide(r, d.State, Now{At: at("2026-11-23T15:00:10Z")}); !d.Begin.Equal(at("2026-11-23T15:00:00Z")) {
		t.Errorf("it begins %s, want 15:00", d.Begin)
	}
}

// Whatever the clock does, and however often the process begins anew: no time has two runs,
// and none begins before its time.
func TestNoTimeHasTwoRuns(t *testing.T) {
	fields := []string{"* * * * *", "*/7 * * * *", "30 2 * * *", "0 0 29 2 *", "59 23 31 12 *", "0 0 * * 1", "*/10 1-3 * * *"}
	zones := []string{"", "Europe/Berlin", "Australia/Lord_Howe", "America/Sao_Paulo"}
	rapid.Check(t, func(rt *rapid.T) {
		r := rules(rt, rapid.SampledFrom(fields).Draw(rt, "fields"), rapid.SampledFrom(zones).Draw(rt, "zone"),
			rapid.SampledFrom([]string{api.CronForbid, api.CronReplace}).Draw(rt, "concurrency"),
			rapid.SampledFrom([]string{api.MissedSkip, api.MissedOnce, api.MissedAll}).Draw(rt, "missed"))
		// Before a change of the clock, most of the time.
		now := time.Unix(rapid.Int64Range(1.5e9, 1.8e9).Draw(rt, "begin"), 0).UTC()
		if _, end := now.In(r.Schedule.Zone()).ZoneBounds(); !end.IsZero() && end.Before(now.AddDate(2, 0, 0)) {
			now = end.Add(-3 * time.Hour).UTC()
		}
		s := Start("r", nil, now)
		begun, running := map[int64]bool{}, false
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			switch rapid.IntRange(0, 9).Draw(rt, "what") {
			case 0: // a jump, there or back
				now = now.Add(time.Duration(rapid.Int64Range(-4e5, 4e5).Draw(rt, "minutes")) * time.Minute)
			case 1:
				now = now.Add(time.Duration(rapid.Int64Range(-200, 200).Draw(rt, "minutes")) * time.Minute)
			case 2:
				running = false
			case 3: // to where it is due
				now = r.Schedule.Next(now).UTC()
			default:
				now = now.Add(time.Duration(rapid.Int64Range(0, 5400).Draw(rt, "seconds")) * time.Second)
			}
			d := Decide(r, s, Now{Running: running, Suspended: rapid.IntRange(0, 19).Draw(rt, "suspended") == 0, At: now})
			if !d.Begin.IsZero() {
				if begun[d.Begin.Unix()] {
					rt.Fatalf("%s has two runs", d.Begin)
				}
				if d.Begin.After(now) || !r.Schedule.Next(d.Begin.Add(-time.Second)).Equal(d.Begin) {
					rt.Fatalf("%s begins at %s", d.Begin, now)
				}
				begun[d.Begin.Unix()], running = true, true
			}
			if len(d.State.Begun) > maxSpans || len(d.State.Pending) > MaxPending {
				rt.Fatalf("it remembers too much: %+v", d.State)
			}
			if !d.Wake.IsZero() && !d.Wake.After(now) {
				rt.Fatalf("at %s it is to look again at %s", now, d.Wake)
			}
			// Deciding once more at the same time changes nothing while what it began goes on.
			if d.State.Pending == nil || running {
				if again := Decide(r, d.State, Now{Running: true, At: now}); !again.Begin.IsZero() || len(again.Said) > 0 {
					rt.Fatalf("and again: %+v after %+v", again, d)
				}
			}
			// What is remembered goes through a file.
			data, err := json.Marshal(d.State)
			if err != nil {
				rt.Fatal(err)
			}
			s = wire.CronState{}
			if err := json.Unmarshal(data, &s); err != nil {
				rt.Fatal(err)
			}
		}
	})
}

// While the clock goes on as it should, each time has a run, was skipped or was missed.
func TestNothingIsDroppedWithoutAWord(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := rules(rt, rapid.SampledFrom([]string{"*/5 * * * *", "0 */2 * * *", "17 4 * * *"}).Draw(rt, "fields"), "Europe/Berlin",
			rapid.SampledFrom([]string{api.CronForbid, api.CronReplace}).Draw(rt, "concurrency"), api.MissedSkip)
		begin := time.Unix(rapid.Int64Range(1.5e9, 1.8e9).Draw(rt, "begin"), 0).UTC()
		s, now, runs, running := Start("r", nil, begin), begin, uint64(0), false
		for range 40 {
			now = now.Add(time.Duration(rapid.Int64Range(0, 7200).Draw(rt, "seconds")) * time.Second)
			if rapid.Bool().Draw(rt, "on time") {
				now = r.Schedule.Next(now).Add(time.Second)
			}
			if rapid.Bool().Draw(rt, "ended") {
				running = false
			}
			d := Decide(r, s, Now{Running: running, At: now})
			if s = d.State; !d.Begin.IsZero() {
				runs, running = runs+1, true
			}
		}
		due := uint64(0)
		for at := r.Schedule.Next(begin); !at.After(now); at = r.Schedule.Next(at) {
			due++
		}
		if runs+s.Skipped+s.Missed != due {
			rt.Fatalf("%d were due: %d ran, %d were skipped, %d missed", due, runs, s.Skipped, s.Missed)
		}
	})
}

func BenchmarkDecide(b *testing.B) {
	for _, fields := range []string{"* * * * *", "30 2 * * *", "0 0 29 2 *"} {
		b.Run(fields, func(b *testing.B) {
			r := rules(b, fields, "Europe/Berlin", api.CronForbid, api.MissedOnce)
			now := at("2026-11-23T15:30:30Z")
			s := Start("r", nil, now)
			for b.Loop() {
				Decide(r, s, Now{At: now})
			}
		})
	}
}
