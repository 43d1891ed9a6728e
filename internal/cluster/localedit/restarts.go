package localedit

import (
	"maps"

	"github.com/verge-edge/verge/internal/wire"
)

// Again are the marks of restarts of one service that were asked for at this site.
// They say nothing about what is to run, so that they are no local change that
// could get into a conflict: the latest mark counts, wherever it was made.
type Again struct {
	V         int                  `json:"v"`
	Restart   *wire.Restart        `json:"restart,omitempty"`
	RestartOf map[int]wire.Restart `json:"restart_of,omitempty"`
}

// On puts the marks into a share, where they are later than those there.
func (a *Again) On(s *wire.Share) *wire.Share {
	if a == nil || s == nil {
		return s
	}
	next := *s
	if a.Restart != nil && (s.Restart == nil || s.Restart.N < a.Restart.N) {
		next.Restart = a.Restart
	}
	if len(a.RestartOf) > 0 {
		next.RestartOf = maps.Clone(s.RestartOf)
		if next.RestartOf == nil {
			next.RestartOf = map[int]wire.Restart{}
		}
		for o, r := range a.RestartOf {
			if next.RestartOf[o].N < r.N {
				next.RestartOf[o] = r
			}
		}
	}
	return &next
}
