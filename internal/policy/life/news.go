package life

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/wire"
)

// News returns events about what happened to an instance between two records and is not in its
// history: exits, restarts in place, checks that begin to fail or pass, a worker that is lost or
// back. Both tiers use it, so that their events agree.
func News(old, now *wire.Instance) (out []event.Event) {
	say := func(kind event.Kind, text string) { out = append(out, kind.On(now.ID, "%s", text)) }
	exit := now.LastExit
	if exit != nil && !sameExit(old.LastExit, exit) && !inHistory(old, now) {
		what := Describe(*exit)
		switch {
		case now.Exited():
			what = now.Reason // which also says what follows
		case now.Again() > old.Again():
			what += fmt.Sprintf("; started again, restart %d", now.Again())
		}
		say(event.InstanceExited, "exited: "+what)
	} else if now.Again() > old.Again() {
		say(event.InstanceRestarted, fmt.Sprintf("started again, restart %d", now.Again()))
	}
	switch {
	case now.Unreachable && !old.Unreachable:
		what := "unreachable: its worker"
		if now.Worker != "" {
			what += " " + now.Worker
		}
		say(event.InstanceWorkerLost, what+" does not report")
		return out
	case !now.Unreachable && old.Unreachable && now.State == wire.Running:
		say(event.InstanceWorkerBack, "reachable again")
	}
	found := finding(now)
	switch {
	case now.State == wire.Running && now.Ready && !old.Ready:
		say(event.InstanceReady, "ready")
	case found != "" && found != finding(old):
		say(event.InstanceUnready, "not ready: "+now.Reason)
	case now.State == wire.Running && old.State == wire.Running && now.Incarnation == old.Incarnation && !now.Ready &&
		old.Ready && !now.Draining && len(out) == 0:
		say(event.InstanceUnready, "not ready")
	}
	return out
}

// inHistory says whether a new step of the history tells of the last exit.
func inHistory(old, now *wire.Instance) bool {
	return slices.ContainsFunc(now.History, func(h wire.Transition) bool {
		return h.Exited(now.LastExit) &&
			!slices.ContainsFunc(old.History, func(was wire.Transition) bool { return was.At.Equal(h.At) && was.Why == h.Why })
	})
}

// sameExit compares two exits, whose times may be in different zones.
func sameExit(a, b *wire.Exit) bool {
	if a == nil || b == nil {
		return a == b
	}
	x, y := *a, *b
	x.At, y.At = time.Time{}, time.Time{}
	return x == y && a.At.Equal(b.At)
}

// finding is the last failure of a check, without the text of the answer and the count, which
// differ each time; "" if no check fails.
func finding(i *wire.Instance) string {
	if i.State != wire.Running && i.State != wire.WorkerScheduled || i.Ready {
		return ""
	}
	if c := i.Because(); c != wire.CauseStartup && c != wire.CauseReadiness && c != wire.CauseLiveness {
		return ""
	}
	found, _, _ := strings.Cut(i.Reason, ` "`)
	found, _, _ = strings.Cut(found, " (")
	return found
}
