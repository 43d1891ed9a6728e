package status

import (
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/verge-edge/verge/internal/engineapi"
)

// maxProblems bounds the list; a worker with more has one cause for most of them.
const maxProblems = 50

// Problems are the things that are wrong now, by subject. Each is logged when it begins and when
// it ends.
type Problems struct {
	log   *slog.Logger
	board *Board

	mu  sync.Mutex        // taken before the board's
	now map[string]string // sentences
}

// NewProblems shows problems on a board.
func NewProblems(log *slog.Logger, b *Board) *Problems {
	return &Problems{log: log, board: b, now: make(map[string]string)}
}

// Set says what is wrong with a subject; nil means that it is well again.
func (p *Problems) Set(subject string, err error) {
	sentence := ""
	if err != nil {
		sentence = subject + ": " + err.Error()
	}
	p.Tell(subject, sentence)
}

// Tell is Set with a sentence that names the subject itself; "" means that it is well again.
func (p *Problems) Tell(subject, sentence string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now[subject] == sentence {
		return
	}
	if sentence == "" {
		delete(p.now, subject)
		p.log.Info("problem is over", "about", subject)
	} else {
		p.now[subject] = sentence
		p.log.Error("problem", "about", subject, "error", sentence)
	}
	var list []string
	for _, s := range slices.Sorted(maps.Keys(p.now)) {
		if len(list) == maxProblems {
			list = append(list, "… and more; the engine's log has them all")
			break
		}
		list = append(list, p.now[s])
	}
	p.board.SetInfo(func(i *engineapi.EngineInfo) { i.Problems = list })
}

// Has reports whether something is wrong with a subject.
func (p *Problems) Has(subject string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, wrong := p.now[subject]
	return wrong
}
