package state

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// NextIncarnation is a number that no run of i has ever had.
func NextIncarnation(i *wire.Instance) int {
	n := max(i.Incarnation, i.Given)
	if i.Moving != nil {
		n = max(n, i.Moving.Incarnation)
	}
	if i.Shadow != nil {
		n = max(n, i.Shadow.Incarnation)
	}
	return n + 1
}

// Become makes i of the incarnation n, and remembers what was given out.
func Become(i *wire.Instance, n int) {
	last := NextIncarnation(i) - 1
	i.Incarnation, i.Given = n, 0
	if last > n {
		i.Given = last
	}
}

// UnderWay says whether another incarnation of i is starting elsewhere.
func UnderWay(i *wire.Instance) bool { return i.Moving != nil && i.Moving.Failed == "" }

// Drop ends a move that came to nothing or that nobody wants any more; its order is
// swept away.
func Drop(i *wire.Instance) {
	if i.Moving != nil {
		last := NextIncarnation(i) - 1
		i.Moving = nil
		if last > i.Incarnation {
			i.Given = last
		}
	}
}

// Ordinals that a share delegates and that are to be fulfilled, in order.
func Ordinals(s *wire.Share) []int {
	var out []int
	for _, sp := range s.Ordinals {
		for o := sp.From; o < sp.To && len(out) < s.Min; o++ {
			out = append(out, o)
		}
	}
	return out
}

// InstanceID is the id of an instance.
func InstanceID(app, svc string, ordinal int) wire.InstanceID {
	return app + "." + svc + "." + strconv.Itoa(ordinal)
}

// RestartNever reports whether the program ended with an error and is not to be run again. What
// has ended says nothing about another program, or against a wish to run it again.
func RestartNever(s *wire.Share, i *wire.Instance) bool {
	return s.Spec.Restart.Policy == "never" && i.LastExit != nil && i.Shadow == nil &&
		i.Restarted >= RestartOf(s, i.Ordinal).N && (i.Program == "" || i.Program == s.Spec.ProgramID())
}

// AppendOnce is the list with s, once.
func AppendOnce(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(slices.Clone(list), s)
}

// JobOf is the share of an instance of a job; nil of all others.
func JobOf(m *Model, i *wire.Instance) *wire.Share {
	if s := m.Shares[i.App+"."+i.Service]; s != nil && s.Spec.Job != nil {
		return s
	}
	return nil
}

// HasProcess reports whether there is, or may soon be, a process of it.
func HasProcess(i *wire.Instance) bool {
	return i.State == wire.Running || i.State == wire.WorkerScheduled || i.Leaving != nil
}

// Halted reports whether it is to end although its share still asks for it.
func Halted(i *wire.Instance) bool { return i.Job != nil && i.Job.Over != "" }

// RestartOf is the latest restart that was asked for of an ordinal; the zero one
// if none was.
func RestartOf(s *wire.Share, ordinal int) wire.Restart {
	var last wire.Restart
	if s.Restart != nil {
		last = *s.Restart
	}
	if r, ok := s.RestartOf[ordinal]; ok && r.N > last.N {
		last = r
	}
	return last
}

// Asked says in words who wanted a restart, and why.
func Asked(r wire.Restart) string {
	what := "restarted"
	if r.By != "" {
		what += " by " + r.By
	}
	if r.Why != "" {
		what += ": " + r.Why
	}
	return what
}

// StandIn reports whether i is an instance that runs beyond those promised.
func StandIn(i *wire.Instance) bool { return i.Ordinal >= wire.SurgeOrdinals }

// Ended says whether an instance that is to be started was given up by its worker since its
// program had ended, or had failed its check.
func Ended(i *wire.Instance) bool {
	for _, h := range slices.Backward(i.History) {
		switch {
		case h.To == wire.Failed:
			return strings.HasPrefix(h.Tier, "worker/") && h.Because() != wire.CauseRefused
		case h.To == wire.Running:
			return false
		}
	}
	return false
}

// Pin notes the worker on which an instance has a named volume.
func Pin(i *wire.Instance, s *wire.Share) {
	switch {
	case !s.Spec.Pins():
		i.Pinned = ""
	case i.Pinned == "":
		i.Pinned = i.Worker
	}
}

// GroupOf is the namespace of a share.
func GroupOf(s *wire.Share) string { return cmp.Or(s.Namespace, api.DefaultNamespace) }
