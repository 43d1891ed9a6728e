package logs

import (
	"os"
	"slices"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/runtime/logfile"
	"github.com/verge-edge/verge/internal/wire"
)

// maxMarks bounds what is remembered of a log.
const maxMarks = 64

// logMark says that a log ended there at a time.
type logMark struct {
	at  time.Time
	end int64
}

// logMarks remember how long logs were that programs of an older version write themselves,
// without times (logfile.Direct), for readers that ask for what was written since a time. The
// files are looked at every RotateEvery anyway. It goes when logfile.Rotate does. It is safe
// for concurrent use.
type logMarks struct {
	mu sync.Mutex
	of map[wire.InstanceID]*markedLog // guarded by mu
}

type markedLog struct {
	live  int64 // size of the live file when it was looked at last
	marks []logMark
}

// look notes where a log ends, if it has grown. One that cannot be read has no
// news.
func (m *logMarks) look(id wire.InstanceID, dir string, now time.Time) {
	st, err := os.Stat(logfile.Live(dir))
	if err != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.of[id]
	if l != nil && l.live == st.Size() {
		return
	}
	end, err := logfile.End(dir)
	if err != nil {
		return
	}
	if l == nil {
		if m.of == nil {
			m.of = map[wire.InstanceID]*markedLog{}
		}
		l = &markedLog{}
		m.of[id] = l
	}
	l.live = st.Size()
	l.add(logMark{now, end})
}

// add a mark. When there are too many, every second of the older half goes: the
// longer ago, the less it matters when exactly.
func (l *markedLog) add(mark logMark) {
	if len(l.marks) == maxMarks {
		kept := l.marks[:0]
		for i, old := range l.marks {
			if i >= maxMarks/2 || i%2 == 0 {
				kept = append(kept, old)
			}
		}
		l.marks = kept
	}
	l.marks = append(l.marks, mark)
}

// before is an offset at which a log ended at a time or earlier; 0 if there is no mark that old.
func (m *logMarks) before(id wire.InstanceID, t time.Time) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.of[id]
	if l == nil {
		return 0
	}
	n, found := slices.BinarySearchFunc(l.marks, t, func(k logMark, t time.Time) int { return k.at.Compare(t) })
	if !found {
		n--
	}
	if n < 0 {
		return 0
	}
	return l.marks[n].end
}

func (m *logMarks) forget(id wire.InstanceID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, id)
}
