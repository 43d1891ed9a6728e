package logfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

const (
	// markSize is the size of a mark on disk: an offset and a time in nanoseconds.
	markSize = 16
	// markEvery is how exact times are: what comes within that time has one.
	markEvery = 10 * time.Millisecond
	// maxStarts are the starts of which it is known where their output begins.
	maxStarts = 32
)

// stamp notes that the bytes from offset on were read at a time, unless those just before
// were read so shortly before that they have the same. The lock is held.
func (s *store) stamp(offset int64, now time.Time) error {
	f, err := os.OpenFile(s.timesPath(), os.O_CREATE|os.O_RDWR, filePerm)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // errors of writing are those of WriteAt
	st, err := f.Stat()
	if err != nil {
		return err
	}
	end := st.Size() - st.Size()%markSize // a crash or a full disk may have torn one
	var last [markSize]byte
	if end > 0 {
		if _, err := f.ReadAt(last[:], end-markSize); err != nil {
			return err
		}
		if since := now.UnixNano() - decodeMark(last[:]).At.UnixNano(); since >= 0 && since < int64(markEvery) {
			return nil
		}
	}
	_, err = f.WriteAt(appendMark(nil, wire.LogTime{Offset: offset, At: now}), end)
	return err
}

// timesFull says whether the live file has as many times as it may have.
func (s *store) timesFull() bool {
	st, err := os.Stat(s.timesPath())
	return err == nil && st.Size()+markSize > s.times
}

func appendMark(b []byte, m wire.LogTime) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(m.Offset))
	return binary.LittleEndian.AppendUint64(b, uint64(m.At.UnixNano()))
}

func decodeMark(b []byte) wire.LogTime {
	return wire.LogTime{
		Offset: int64(binary.LittleEndian.Uint64(b)),
		At:     time.Unix(0, int64(binary.LittleEndian.Uint64(b[8:]))),
	}
}

// readMarks reads a file of marks; one that is not there has none.
func readMarks(path string) ([]wire.LogTime, error) {
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read times of log: %w", err)
	}
	out := make([]wire.LogTime, 0, len(b)/markSize)
	for ; len(b) >= markSize; b = b[markSize:] {
		out = append(out, decodeMark(b))
	}
	return out, nil
}

// allTimes are all times that are kept of the log of dir, by offset.
func allTimes(dir string) ([]wire.LogTime, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list times of log: %w", err)
	}
	var out []wire.LogTime
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), timesName) {
			continue
		}
		some, err := readMarks(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		out = append(out, some...)
	}
	slices.SortFunc(out, func(a, b wire.LogTime) int {
		switch {
		case a.Offset < b.Offset:
			return -1
		case a.Offset > b.Offset:
			return 1
		}
		return a.At.Compare(b.At)
	})
	return out, nil
}

// Times says when the bytes of a part of the log of dir were read from their program: the
// first of it is of r.From or less, and each holds up to the next. It is empty where no
// times were kept, as of a log that an older version wrote.
func Times(dir string, r Range) ([]wire.LogTime, error) {
	all, err := allTimes(dir)
	if err != nil {
		return nil, err
	}
	var out []wire.LogTime
	for _, m := range all {
		switch {
		case m.Offset >= r.To:
		case m.Offset <= r.From:
			out = append(out[:0], m)
		default:
			out = append(out, m)
		}
	}
	return out, nil
}

// Since is an offset from which on the log of dir has all that was written since a time,
// and little more. known is false where no times were kept.
func Since(dir string, t time.Time) (offset int64, known bool, err error) {
	all, err := allTimes(dir)
	if err != nil || len(all) == 0 {
		return 0, false, err
	}
	for i, m := range slices.Backward(all) {
		if m.At.Add(markEvery).After(t) {
			continue
		}
		if i == len(all)-1 {
			offset, err = End(dir)
			return offset, true, err
		}
		return all[i+1].Offset, true, nil
	}
	return 0, true, nil
}

// noteStart writes that what is logged from now on is of another start of the program.
// The lock is held.
func noteStart(dir string, now time.Time) error {
	path := filepath.Join(dir, startsName)
	l, err := load(dir)
	if err != nil {
		return err
	}
	starts, err := readMarks(path)
	if err != nil {
		return err
	}
	starts = append(starts, wire.LogTime{Offset: l.end(), At: now})
	starts = starts[max(0, len(starts)-maxStarts):]
	var b []byte
	for _, m := range starts {
		b = appendMark(b, m)
	}
	if err := os.WriteFile(path+".tmp", b, filePerm); err != nil {
		return fmt.Errorf("note a start in the log: %w", err)
	}
	return os.Rename(path+".tmp", path)
}

// Starts are the last starts of the program that writes the log of dir, oldest first: where
// the output of each begins, and when that was.
func Starts(dir string) ([]wire.LogTime, error) { return readMarks(filepath.Join(dir, startsName)) }
