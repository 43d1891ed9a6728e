package suspicion

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestJudge(t *testing.T) {
	at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	var never time.Time
	for name, c := range map[string]struct {
		now     time.Time
		peer    Peer
		stalled bool
		want    Verdict
	}{
		"heard of":              {at(12), Peer{Heard: at(10), Interval: time.Second, Connected: true}, false, Verdict{Heard: at(10)}},
		"just not silent":       {at(12.499), Peer{Heard: at(10), Interval: time.Second, Connected: true}, false, Verdict{Heard: at(10)}},
		"silent":                {at(12.5), Peer{Heard: at(10), Interval: time.Second, Connected: true}, false, Verdict{Suspect: true, Since: at(12.5), Heard: at(10), Why: "silent for 2.5s, longer than 2.5s"}},
		"judged late":           {at(14), Peer{Heard: at(10), Interval: time.Second, Connected: true}, false, Verdict{Suspect: true, Since: at(12.5), Heard: at(10), Why: "silent for 4s, longer than 2.5s"}},
		"closed":                {at(11), Peer{Heard: at(10), Interval: time.Second}, false, Verdict{Suspect: true, Since: at(11), Heard: at(10), Why: "its connection is closed"}},
		"closed before":         {at(15), Peer{Heard: at(10), Interval: time.Second, Since: at(11)}, false, Verdict{Suspect: true, Since: at(11), Heard: at(10), Why: "its connection is closed"}},
		"closed, now silent":    {at(15), Peer{Heard: at(10), Interval: time.Second, Connected: true, Since: at(11)}, false, Verdict{Suspect: true, Since: at(11), Heard: at(10), Why: "silent for 5s, longer than 2.5s"}},
		"heard again":           {at(15), Peer{Heard: at(14.9), Interval: time.Second, Connected: true, Since: at(11)}, false, Verdict{Heard: at(14.9)}},
		"stalled, silent":       {at(30), Peer{Heard: at(10), Interval: time.Second, Connected: true}, true, Verdict{Heard: at(30)}},
		"stalled, closed":       {at(30), Peer{Heard: at(10), Interval: time.Second, Since: at(11)}, true, Verdict{Suspect: true, Since: at(30), Heard: at(30), Why: "its connection is closed"}},
		"not heard of yet":      {at(30), Peer{Heard: never, Interval: time.Second, Connected: true}, false, Verdict{Heard: at(30)}},
		"not heard of, closed":  {at(30), Peer{Heard: never, Interval: time.Second}, false, Verdict{Suspect: true, Since: at(30), Heard: at(30), Why: "its connection is closed"}},
		"no interval":           {at(34), Peer{Heard: at(10), Connected: true}, false, Verdict{Heard: at(10)}},
		"no interval, silent":   {at(35), Peer{Heard: at(10), Connected: true}, false, Verdict{Suspect: true, Since: at(35), Heard: at(10), Why: "silent for 25s, longer than 25s"}},
		"reported in future":    {at(9), Peer{Heard: at(10), Interval: time.Second, Connected: true}, false, Verdict{Heard: at(10)}},
		"stalled while suspect": {at(30), Peer{Heard: at(10), Interval: time.Second, Connected: true, Since: at(12.5)}, true, Verdict{Heard: at(30)}},
	} {
		if got := Judge(c.now, c.peer, c.stalled); got != c.want {
			t.Errorf("%s:\ngot  %+v\nwant %+v", name, got, c.want)
		}
	}
}

func TestReplace(t *testing.T) {
	suspect := Verdict{Suspect: true, Since: start}
	for name, c := range map[string]struct {
		v         Verdict
		waited    time.Duration
		after     time.Duration
		announced bool
		want      bool
	}{
		"impatient":         {suspect, 0, 0, false, true},
		"too early":         {suspect, 20*time.Second - 1, 20 * time.Second, false, false},
		"due":               {suspect, 20 * time.Second, 20 * time.Second, false, true},
		"announced":         {suspect, 79 * time.Second, 20 * time.Second, true, false},
		"announced and due": {suspect, 80 * time.Second, 20 * time.Second, true, true},
		"pinned":            {suspect, 1000 * time.Hour, -1, false, false},
		"not suspect":       {Verdict{}, 1000 * time.Hour, 0, false, false},
	} {
		if got := c.v.Replace(start.Add(c.waited), c.after, c.announced); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestStalled(t *testing.T) {
	for _, c := range []struct {
		gap, tick, interval time.Duration
		want                bool
	}{
		{250 * time.Millisecond, 250 * time.Millisecond, time.Second, false},
		{1200 * time.Millisecond, 250 * time.Millisecond, time.Second, false},
		{1250 * time.Millisecond, 250 * time.Millisecond, time.Second, true},
		{9 * time.Second, time.Second, 0, false},
		{11 * time.Second, time.Second, 0, true},
	} {
		if got := Stalled(c.gap, c.tick, c.interval); got != c.want {
			t.Errorf("gap %s of %s, λ %s: %v, want %v", c.gap, c.tick, c.interval, got, c.want)
		}
	}
}

// An orchestrator in virtual time: a peer that reports punctually is never
// suspect, whatever pauses the orchestrator makes; one that died is, within the
// limit and one tick of the last pause, and replaced replace_after later.
func TestSuspicionSimulated(t *testing.T) {
	const tick, interval, after = 250 * time.Millisecond, time.Second, 3 * time.Second
	rapid.Check(t, func(t *rapid.T) {
		pauses := rapid.SliceOfN(rapid.IntRange(0, 10000), 0, 5).Draw(t, "pauses in ms")
		died := start.Add(time.Duration(rapid.IntRange(0, 60000).Draw(t, "died at ms")) * time.Millisecond)
		p := Peer{Heard: start, Interval: interval, Connected: true}
		now, last, doubted := start, start, start
		paused := false
		for {
			step := tick
			// Between two pauses it gets to read what has come.
			if paused = !paused; paused && now.After(start.Add(10*time.Second)) && len(pauses) > 0 {
				step += time.Duration(pauses[0]) * time.Millisecond
				pauses = pauses[1:]
			}
			now = now.Add(step)
			stalled := Stalled(now.Sub(last), tick, interval)
			last = now
			if stalled {
				doubted = now
			}
			// A paused orchestrator reads what came meanwhile only afterwards.
			report := start.Add(now.Sub(start) / interval * interval)
			if alive := report.Before(died); alive && step == tick && report.After(p.Heard) {
				p.Heard = report
			}
			v := Judge(now, p, stalled)
			p.Heard, p.Since = v.Heard, v.Since
			if v.Suspect && now.Before(died) {
				t.Fatalf("suspect at %s though alive until %s: %s", now.Sub(start), died.Sub(start), v.Why)
			}
			if v.Replace(now, after, false) {
				if now.Sub(p.Since) < after {
					t.Fatalf("replaced %s after suspicion", now.Sub(p.Since))
				}
				return
			}
			newest := died
			if doubted.After(newest) {
				newest = doubted
			}
			if len(pauses) == 0 && now.Sub(newest) > SilenceLimit(interval)+after+2*tick {
				t.Fatalf("not replaced %s after death at %s", now.Sub(died), died.Sub(start))
			}
		}
	})
}

func TestNextLook(t *testing.T) {
	peers := func(list ...Peer) func(func(Peer) bool) { return slices.Values(list) }
	heard := func(ago, interval time.Duration) Peer {
		return Peer{Heard: start.Add(-ago), Interval: interval, Connected: true}
	}
	suspect := heard(0, time.Second)
	suspect.Since = start
	for name, c := range map[string]struct {
		peers func(func(Peer) bool)
		want  time.Duration
	}{
		"nobody":              {peers(), maxLook},
		"one":                 {peers(heard(0, 10*time.Second)), 24 * time.Second},
		"the first of two":    {peers(heard(4*time.Second, 10*time.Second), heard(0, 4*time.Second)), 9 * time.Second},
		"silent for too long": {peers(heard(time.Hour, 10*time.Second)), time.Second},
		"suspect":             {peers(heard(0, 10*time.Second), suspect), time.Second},
		"rare reports":        {peers(heard(0, time.Hour)), maxLook},
	} {
		if got := NextLook(start, time.Second, c.peers); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// An orchestrator that sleeps as NextLook says finds out about a silent peer as
// soon as one that looks every tick, at most a tick after the limit; and one that
// was itself stopped for any time accuses nobody whose reports it only had not
// read.
func TestSleepingIsSafe(t *testing.T) {
	const tick = time.Second
	rapid.Check(t, func(t *rapid.T) {
		interval := time.Duration(rapid.IntRange(1000, 15000).Draw(t, "interval ms")) * time.Millisecond
		dies := time.Duration(rapid.IntRange(0, 60000).Draw(t, "dies ms")) * time.Millisecond
		stopAt := time.Duration(rapid.IntRange(0, 60000).Draw(t, "stop ms")) * time.Millisecond
		stopFor := time.Duration(rapid.IntRange(0, 40000).Draw(t, "stopped for ms")) * time.Millisecond
		// Reports are read as they come, but not while the orchestrator is stopped:
		// then shortly after, and after the look that was due.
		lastHeard := func(at time.Duration) time.Duration {
			sent := min(at, dies) / interval * interval
			if sent > stopAt && at < stopAt+stopFor+tick/2 {
				sent = stopAt / interval * interval
			} else if sent > stopAt && sent < stopAt+stopFor {
				sent = stopAt + stopFor + tick/2
			}
			return sent
		}
		p := Peer{Heard: start, Interval: interval, Connected: true}
		last, planned := time.Duration(0), tick
		for at := tick; at < 3*time.Minute; {
			if at >= stopAt && at < stopAt+stopFor {
				at = stopAt + stopFor
			}
			now := start.Add(at)
			if h := start.Add(lastHeard(at)); h.After(p.Heard) {
				p.Heard = h
			}
			v := Judge(now, p, Stalled(at-last, planned, tick))
			p.Heard, p.Since = v.Heard, v.Since
			alive := at < dies+interval
			if v.Suspect && alive {
				t.Fatalf("accused at %s, when it reported every %s until %s; stopped at %s for %s", at, interval, dies, stopAt, stopFor)
			}
			limit := dies + SilenceLimit(interval)
			if !v.Suspect && at > max(limit, stopAt+stopFor+SilenceLimit(interval))+2*tick {
				t.Fatalf("not accused at %s, silent since %s", at, dies)
			}
			last, planned = at, NextLook(now, tick, slices.Values([]Peer{p}))
			at += planned
		}
	})
}
