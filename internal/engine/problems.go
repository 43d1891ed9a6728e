package engine

import (
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"github.com/verge-edge/verge/internal/wire"
)

// maxProblems that are shown; a worker with more has one cause for most.
const maxProblems = 50

// problems are the things that are wrong now, by what they are about. Each is
// logged when it comes and when it goes, not while it lasts.
type problems struct {
	log   *slog.Logger
	board *board

	mu  sync.Mutex        // taken before the board's
	now map[string]string // sentences
}

func newProblems(log *slog.Logger, b *board) *problems {
	return &problems{log: log, board: b, now: make(map[string]string)}
}

// set says what is wrong with a subject; nil is nothing (any more).
func (p *problems) set(subject string, err error) {
	sentence := ""
	if err != nil {
		sentence = subject + ": " + err.Error()
	}
	p.tell(subject, sentence)
}

// tell is set with a sentence that names the subject itself; "" is nothing wrong.
func (p *problems) tell(subject, sentence string) {
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
	p.board.setInfo(func(i *wire.EngineInfo) { i.Problems = list })
}

// has says whether something is wrong with a subject.
func (p *problems) has(subject string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, wrong := p.now[subject]
	return wrong
}

// fileSubject and logSubject name what a problem is about.
func fileSubject(path string) string {
	return "file " + filepath.Join(filepath.Base(filepath.Dir(path)), filepath.Base(path))
}

func logSubject(id wire.InstanceID) string { return "log of " + id }
