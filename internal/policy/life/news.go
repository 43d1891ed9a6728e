package life

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// News says in words what happened to an instance between two records of it that its
// history does not say: exits, restarts in place, checks that fail or pass, and a worker
// that is not heard of. Both tiers make their events of it, so that they say the same.
func News(old, now *wire.Instance) []string {
	var out []string
	exit := now.LastExit
	if exit != nil && !sameExit(old.LastExit, exit) && !inHistory(old, now, Describe(*exit)) {
		what := Describe(*exit)
		switch {
		case strings.HasPrefix(now.Reason, what):
			what = now.Reason // it says what follows, too
		case now.Again() > old.Again():
			what += fmt.Sprintf("; started again, restart %d", now.Again())
		}
		out = append(out, "exited: "+what)
	} else if now.Again() > old.Again() {
		out = append(out, fmt.Sprintf("started again, restart %d", now.Again()))
	}
	switch {
	case now.Unreachable && !old.Unreachable:
		what := "unreachable: its worker"
		if now.Worker != "" {
			what += " " + now.Worker
		}
		return append(out, what+" is not heard of")
	case !now.Unreachable && old.Unreachable && now.State == wire.Running:
		out = append(out, "reachable again")
	}
	found := finding(now)
	switch {
	case now.State == wire.Running && now.Ready && !old.Ready:
		out = append(out, "ready")
	case found != "" && found != finding(old):
		out = append(out, "not ready: "+now.Reason)
	case now.State == wire.Running && old.State == wire.Running && now.Incarnation == old.Incarnation && !now.Ready &&
		old.Ready && !now.Draining && len(out) == 0:
		out = append(out, "not ready")
	}
	return out
}

// inHistory says whether a step that is in the history of now and not of old says what.
func inHistory(old, now *wire.Instance, what string) bool {
	return slices.ContainsFunc(now.History, func(h wire.Transition) bool {
		return strings.Contains(h.Why, what) &&
			!slices.ContainsFunc(old.History, func(was wire.Transition) bool { return was.At.Equal(h.At) && was.Why == h.Why })
	})
}

// sameExit compares two exits, of which the times may have been read twice and so have
// other zones.
func sameExit(a, b *wire.Exit) bool {
	if a == nil || b == nil {
		return a == b
	}
	x, y := *a, *b
	x.At, y.At = time.Time{}, time.Time{}
	return x == y && a.At.Equal(b.At)
}

// finding is what a check of an instance found last, without what may differ each time: the
// text of an answer, and how often. It is "" where no check of it fails.
func finding(i *wire.Instance) string {
	if i.State != wire.Running && i.State != wire.WorkerScheduled || i.Ready {
		return ""
	}
	for _, kind := range []string{"startup ", "readiness ", "liveness "} {
		if strings.HasPrefix(i.Reason, kind) {
			found, _, _ := strings.Cut(i.Reason, ` "`)
			found, _, _ = strings.Cut(found, " (")
			return found
		}
	}
	return ""
}
