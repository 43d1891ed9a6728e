package jobs

import (
	"slices"
	"strings"

	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// ShareDone answers clusters that were restored from a backup, and ask what of their jobs
// has completed since that was made: what they have forgotten is stored here.
func ShareDone(t *state.Tx, want map[string]*wire.Share) {
	for key, s := range want {
		name, _, _ := strings.Cut(key, ".")
		c := t.Model.Clusters[name]
		if s.Spec.Job == nil || s.Spec.Cron != nil || c == nil || t.Model.Apps[s.App] == nil {
			continue
		}
		rule, rep := state.RuleOf(t.Model.Apps[s.App], s.Service), c.Jobs[s.App+"."+s.Service]
		var given *wire.JobDone
		if old := t.Model.Shares[key]; old != nil {
			given = old.Done
		}
		done := wire.JobDone{Program: rule.Program, Restarted: rule.App.Restarts[s.Service].N}
		switch {
		case rep == nil: // not heard since this process began, or it has never begun
			s.Done = given
			continue
		case rep.Restored.IsZero():
			continue
		case given != nil && given.Restored.Equal(rep.Restored) && given.Program == done.Program &&
			given.Restarted == done.Restarted:
			s.Done = given
			continue
		}
		done.Restored = rep.Restored
		for _, i := range t.Of(s.App, s.Service) { // by ordinal
			if i.Cluster != name || i.Draining || !rule.Done(i) {
				continue
			}
			if n := len(done.Ordinals); n > 0 && done.Ordinals[n-1].To == i.Ordinal {
				done.Ordinals[n-1].To++
			} else {
				done.Ordinals = append(done.Ordinals, wire.Span{From: i.Ordinal, To: i.Ordinal + 1})
			}
		}
		done.Ordinals = slices.Clip(done.Ordinals)
		s.Done = &done
		t.Event(event.JobRestored, s.App+"."+s.Service,
			"cluster %s was restored from a backup: it is told what of the job has completed there", name)
	}
}
