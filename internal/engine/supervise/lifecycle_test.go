package supervise

import "testing"

// The transitions of an instance, in the orders in which a supervisor makes them.
func TestLifecycle(t *testing.T) {
	t.Parallel()
	start := func(l *lifecycle) { l.start(); l.started(); l.took() }
	serve := func(l *lifecycle) { l.probed(true); l.answered() }
	for name, c := range map[string]struct {
		do   func(l *lifecycle)
		want lifecycle
	}{
		"new":     {func(*lifecycle) {}, lifecycle{}},
		"started": {start, lifecycle{}},
		"ready": {func(l *lifecycle) { start(l); serve(l) },
			lifecycle{traffic: open, timed: true}},
		"not ready any more": {func(l *lifecycle) { start(l); serve(l); l.probed(false) },
			lifecycle{timed: true}},
		"started again": {func(l *lifecycle) { start(l); serve(l); l.ended(); start(l) }, lifecycle{}},
		"condemned": {func(l *lifecycle) { start(l); serve(l); l.condemn() },
			lifecycle{timed: true}},
		"being stopped": {func(l *lifecycle) { start(l); serve(l); l.drain(false) },
			lifecycle{traffic: draining, timed: true}},
		"could not be stopped": {func(l *lifecycle) { start(l); serve(l); l.drain(false); l.watch() },
			lifecycle{timed: true}},
		"watched on": {func(l *lifecycle) { start(l); serve(l); l.watch() },
			lifecycle{traffic: open, timed: true}},
		"asleep": {func(l *lifecycle) { l.fallAsleep() }, lifecycle{slumber: asleep}},
		"woken":  {func(l *lifecycle) { l.fallAsleep(); start(l) }, lifecycle{slumber: dozing}},
		"woken, failed, started again": {func(l *lifecycle) { l.fallAsleep(); start(l); l.ended(); start(l) },
			lifecycle{slumber: dozing}},
		"woken and answers": {func(l *lifecycle) { l.fallAsleep(); start(l); serve(l) },
			lifecycle{traffic: open, timed: true}},
		"falls asleep": {func(l *lifecycle) { start(l); serve(l); l.drain(true) },
			lifecycle{traffic: draining, slumber: dozing, timed: true}},
		"a request before it slept": {func(l *lifecycle) { start(l); serve(l); l.resume(l.drain(true)) },
			lifecycle{traffic: open, timed: true}},
		"fell asleep": {func(l *lifecycle) { start(l); serve(l); l.drain(true); l.ended(); l.fallAsleep() },
			lifecycle{slumber: asleep, timed: true}},
		"found again": {func(l *lifecycle) { l.adopted(); l.took(); serve(l) },
			lifecycle{traffic: open, timed: true}},
		"perhaps left":        {func(l *lifecycle) { l.lost(true); l.ended() }, lifecycle{unsure: true}},
		"perhaps left, swept": {func(l *lifecycle) { l.lost(true); l.swept() }, lifecycle{}},
		"perhaps left, found": {func(l *lifecycle) { l.lost(true); l.took() }, lifecycle{}},
	} {
		var l lifecycle
		if c.do(&l); l != c.want {
			t.Errorf("%s: %+v, want %+v", name, l, c.want)
		}
	}
}

// What a transition reports is what a supervisor tells or counts once.
func TestLifecycleReports(t *testing.T) {
	t.Parallel()
	l := lifecycle{}
	l.fallAsleep()
	if !l.start() || l.start() {
		t.Error("a start wakes what sleeps, once")
	}
	if !l.probed(true) || l.probed(true) || !l.probed(false) {
		t.Error("readiness is news when it changes")
	}
	if first, woken := l.answered(); !first || !woken {
		t.Errorf("the first answer of what was woken: %t, %t", first, woken)
	}
	if first, _ := l.answered(); first {
		t.Error("a start has two ends")
	}
	l.started()
	if first, woken := l.answered(); !first || woken {
		t.Errorf("the first answer after a restart: %t, %t", first, woken)
	}
}
