package wasm

import (
	"bytes"
	"errors"
	"io/fs"
	"os"

	"github.com/verge-edge/verge/internal/runtime/logfile"
)

// maxLine is how much of a line is held until its end comes.
const maxLine = 16 << 10

// logWriter writes what a module says to the log of its task, whole lines at a time,
// because several instances write to it. It opens the file when there is something.
type logWriter struct {
	dir string
	buf []byte
}

// Write implements io.Writer. A log that cannot be written is no failure of a
// function.
func (l *logWriter) Write(p []byte) (int, error) {
	l.buf = append(l.buf, p...)
	end := bytes.LastIndexByte(l.buf, '\n') + 1
	if end == 0 && len(l.buf) < maxLine {
		return len(p), nil
	}
	if end == 0 {
		end = len(l.buf)
	}
	l.put(l.buf[:end])
	l.buf = l.buf[:copy(l.buf, l.buf[end:])]
	return len(p), nil
}

// flush writes what has no end of line yet.
func (l *logWriter) flush() {
	if len(l.buf) > 0 {
		l.put(append(l.buf, '\n'))
		l.buf = nil
	}
}

func (l *logWriter) put(p []byte) {
	err := logfile.Append(l.dir, p)
	if errors.Is(err, fs.ErrNotExist) { // most functions never log, so theirs is made here
		if err = os.MkdirAll(l.dir, 0o700); err == nil {
			err = logfile.Append(l.dir, p)
		}
	}
	_ = err // the disk: the engine shows that it is full
}

func (l *logWriter) close() { l.flush() }
