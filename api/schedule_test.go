package api

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func schedule(t *testing.T, fields, zone string) *Schedule {
	t.Helper()
	s, err := ParseSchedule(fields, zone)
	if err != nil {
		t.Fatalf("%q in %q: %v", fields, zone, err)
	}
	return s
}

// Times that people have been caught by, written down by hand.
func TestScheduleAtTheChangesOfTheClock(t *testing.T) {
	for _, c := range []struct{ fields, zone, after, want string }{
		{"30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00+01:00", "2026-03-29T03:00:00+02:00 2026-03-30T02:30:00+02:00"},                           // left out: at the change
		{"30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00+02:00", "2026-10-25T02:30:00+02:00 2026-10-26T02:30:00+01:00"},                           // repeated: once
		{"*/30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00+01:00", "2026-03-29T03:00:00+02:00 2026-03-30T02:00:00+02:00"},                         // two left out: one run
		{"30 * * * *", "Europe/Berlin", "2026-10-25T01:00:00+02:00", "2026-10-25T01:30:00+02:00 2026-10-25T02:30:00+02:00 2026-10-25T02:30:00+01:00"}, // as the hours are
		{"30 * * * *", "Europe/Berlin", "2026-03-29T01:00:00+01:00", "2026-03-29T01:30:00+01:00 2026-03-29T03:30:00+02:00"},
		{"0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00:00-03:00", "2018-11-04T01:00:00-02:00 2018-11-05T00:00:00-02:00"}, // no midnight
		{"0 12 * * *", "Pacific/Apia", "2011-12-29T00:00:00-10:00", "2011-12-29T12:00:00-10:00 2011-12-31T00:00:00+14:00 2011-12-31T12:00:00+14:00"},
		{"15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00+10:30", "2026-10-04T02:30:00+11:00 2026-10-05T02:15:00+11:00"}, // half an hour
		{"0 3 * * *", "Europe/Berlin", "2026-03-28T12:00:00+01:00", "2026-03-29T03:00:00+02:00 2026-03-30T03:00:00+02:00"},
		{"0 0 29 2 *", "", "2096-03-01T00:00:00Z", "2104-02-29T00:00:00Z"},
		{"0 0 29 2 *", "", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"},
		{"0 0 31 * *", "", "2026-01-31T00:00:00Z", "2026-03-31T00:00:00Z"},
		{"0 9 1 * MON", "", "2026-11-23T12:00:00Z", "2026-11-30T09:00:00Z 2026-12-01T09:00:00Z"}, // either day
		{"0 9 * * 7", "", "2026-11-23T12:00:00Z", "2026-11-29T09:00:00Z"},
		{"0 9 * * 5-7", "", "2026-11-28T12:00:00Z", "2026-11-29T09:00:00Z 2026-12-04T09:00:00Z"},
	} {
		s := schedule(t, c.fields, c.zone)
		at, err := time.Parse(time.RFC3339, c.after)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range strings.Fields(c.want) {
			at = s.Next(at)
			if got := at.Format(time.RFC3339); got != want {
				t.Errorf("%s in %s after %s: %s, want %s", c.fields, c.zone, c.after, got, want)
			}
		}
	}
}

func TestScheduleRefuses(t *testing.T) {
	for _, c := range []struct{ fields, zone, says string }{
		{"", "", "five fields"}, {"* * * *", "", "five fields"}, {"0 * * * * *", "", "five fields"}, {"@daily", "", "five fields"},
		{"TZ=UTC 0 0 * * *", "", "five fields"}, {"TZ=UTC 0 0 * *", "", "without"}, {"@every 1s 2 3 4", "", "without"},
		{"60 * * * *", "", "60"}, {"0 0 31 2 *", "", "no such day"}, {"0 0 30 feb *", "", "no such day"}, {"x * * * *", "", "x"}, {"*/0 * * * *", "", "0"},
		{"0 0 * * *", "Mars/Olympus", "known"}, {"0 0 * * *", "../../etc/passwd", "known"}, {"0 0 * * *", "Local", "everywhere"},
		{strings.Repeat("1,", 200) + "1 * * * *", "", "five fields"},
	} {
		if s, err := ParseSchedule(c.fields, c.zone); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q in %q: %v, %v, want %q", c.fields, c.zone, s, err, c.says)
		}
	}
}

// Next agrees with looking at every minute, in zones with every kind of change.
func TestScheduleIsWhatTheWallSays(t *testing.T) {
	zones := []string{"", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Casablanca", "Asia/Kathmandu", "America/St_Johns"}
	rapid.Check(t, func(rt *rapid.T) {
		fields := rapid.SampledFrom([]string{"*", "0", "15", "*/20", "59"}).Draw(rt, "minute") + " " +
			rapid.SampledFrom([]string{"*", "0", "1", "2", "3", "*/2", "0-4", "23"}).Draw(rt, "hour") + " * * " + rapid.SampledFrom([]string{"*", "0", "1-5"}).Draw(rt, "weekday")
		s, err := ParseSchedule(fields, rapid.SampledFrom(zones).Draw(rt, "zone"))
		if err != nil {
			rt.Fatal(err)
		}
		// Around a change of the clock, where there is one.
		at := time.Unix(rapid.Int64Range(1.2e9, 2e9).Draw(rt, "year"), 0)
		if _, end := at.In(s.Zone()).ZoneBounds(); !end.IsZero() {
			at = end
		}
		from := at.Add(-time.Duration(rapid.IntRange(0, 30*60).Draw(rt, "before")) * time.Minute).Truncate(time.Minute)
		until := from.Add(36 * time.Hour)
		var want, got []time.Time
		for m := from.Add(time.Minute); !m.After(until); m = m.Add(time.Minute) {
			if s.atMinute(m) {
				want = append(want, m)
			}
		}
		for m := s.Next(from); !m.IsZero() && !m.After(until); m = s.Next(m) {
			got = append(got, m)
		}
		if len(got) != len(want) {
			rt.Fatalf("%s in %s from %s: %v, want %v", fields, s.Zone(), from, got, want)
		}
		for k := range got {
			if !got[k].Equal(want[k]) {
				rt.Fatalf("%s in %s from %s: %s, want %s", fields, s.Zone(), from, got[k], want[k])
			}
		}
	})
}

// atMinute says the same by definition: whether a minute is due.
func (s *Schedule) atMinute(m time.Time) bool {
	matches := func(wall time.Time) bool { return s.spec.Next(wall.Add(-time.Second)).Equal(wall) }
	wall := func(at time.Time) time.Time {
		at = at.In(s.zone)
		return time.Date(at.Year(), at.Month(), at.Day(), at.Hour(), at.Minute(), 0, 0, time.UTC)
	}
	at := wall(m)
	if s.hourly {
		return matches(at)
	}
	before := wall(m.Add(-time.Minute))
	for left := before.Add(time.Minute); left.Before(at); left = left.Add(time.Minute) {
		if matches(left) {
			return true // left out
		}
	}
	if start, _ := m.In(s.zone).ZoneBounds(); m.Sub(start) > 3*time.Hour {
		return matches(at)
	}
	for back := time.Minute; back <= 3*time.Hour; back += time.Minute {
		if !wall(m.Add(-back)).Before(at) {
			return false // was there before
		}
	}
	return matches(at)
}

func FuzzParseSchedule(f *testing.F) {
	for _, s := range []string{"* * * * *", "*/5 0-23/2 1,15 jan-dec mon", "0 0 L * *", "H H * * *", "5-1 * * * *", "-7 * * * -7"} {
		f.Add(s, "Europe/Berlin")
	}
	f.Fuzz(func(t *testing.T, fields, zone string) {
		s, err := ParseSchedule(fields, zone)
		if err != nil {
			return
		}
		now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
		if next := s.Next(now); !next.IsZero() && !next.After(now) {
			t.Fatalf("%q: %s is not after %s", fields, next, now)
		}
	})
}
