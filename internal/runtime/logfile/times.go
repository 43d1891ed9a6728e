package logfile

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/wire/rpc"
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
// were read so shortly before that they have the same. The lock is held, and seen is true.
func (s *store) stamp(offset int64, now time.Time) error {
	at := now.UnixNano()
	if since := at - s.seen.last; s.seen.last > 0 && since >= 0 && since < int64(markEvery) {
		return nil
	}
	fd, err := openFile(s.timesPath(), unix.O_CREAT|unix.O_WRONLY)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // errors of writing are those of Pwrite
	var b [markSize]byte
	for {
		// A crash or a full disk may have torn the last one, which is written over.
		n, err := unix.Pwrite(fd, appendMark(b[:0], rpc.LogTime{Offset: offset, At: now}), s.seen.times)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		case n < markSize:
			return syscall.ENOSPC
		}
		s.seen.times, s.seen.last = s.seen.times+markSize, at
		return nil
	}
}

// lastMark is where the marks of a file end, and the time of the last; 0 is none.
func lastMark(path string) (end, last int64, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	defer f.Close() //nolint:errcheck // read only
	st, err := f.Stat()
	if err != nil {
		return 0, 0, err
	}
	end = st.Size() - st.Size()%markSize
	if end == 0 {
		return 0, 0, nil
	}
	var b [markSize]byte
	if _, err := f.ReadAt(b[:], end-markSize); err != nil {
		return 0, 0, err
	}
	return end, decodeMark(b[:]).At.UnixNano(), nil
}

func appendMark(b []byte, m rpc.LogTime) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(m.Offset))
	return binary.LittleEndian.AppendUint64(b, uint64(m.At.UnixNano()))
}

func decodeMark(b []byte) rpc.LogTime {
	return rpc.LogTime{
		Offset: int64(binary.LittleEndian.Uint64(b)),
		At:     time.Unix(0, int64(binary.LittleEndian.Uint64(b[8:]))),
	}
}

// readMarks reads a file of marks; one that is not there has none.
func readMarks(path string) ([]rpc.LogTime, error) {
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read times of log: %w", err)
	}
	out := make([]rpc.LogTime, 0, len(b)/markSize)
	for ; len(b) >= markSize; b = b[markSize:] {
		out = append(out, decodeMark(b))
	}
	return out, nil
}

// timesFile has the marks of a segment, or of the live file.
type timesFile struct {
	name  string
	start int64 // of a segment: the offset of its first byte; of the live file the largest
}

// listTimes lists them by offset.
func listTimes(dir string) ([]timesFile, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list times of log: %w", err)
	}
	var out []timesFile
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), timesName)
		if !ok {
			continue
		}
		at := timesFile{name: e.Name(), start: math.MaxInt64}
		if rest != "" {
			if at.start, err = strconv.ParseInt(strings.TrimPrefix(rest, "."), 10, 64); err != nil {
				continue // not one of ours
			}
		}
		out = append(out, at)
	}
	slices.SortFunc(out, func(a, b timesFile) int { return cmp.Compare(a.start, b.start) })
	return out, nil
}

// readTimes reads the marks of a part of the log of dir, by offset, and those around it that
// are in the same files. A rotation gives a file another name, so what was listed before and
// after must be the same.
func readTimes(dir string, r Range) ([]rpc.LogTime, error) {
	list, err := listTimes(dir)
	for range readAttempts {
		if err != nil {
			return nil, err
		}
		var out []rpc.LogTime
		for i, f := range list {
			if i > 0 && f.start != math.MaxInt64 && f.start >= r.To || i+1 < len(list) && list[i+1].start <= r.From {
				continue // all of it is behind the part, or before it
			}
			marks, err := readMarks(filepath.Join(dir, f.name))
			if err != nil {
				return nil, err
			}
			out = append(out, marks...)
		}
		before := list
		if list, err = listTimes(dir); err == nil && slices.Equal(before, list) {
			return out, nil
		}
	}
	return nil, fmt.Errorf("read times of log: %w %d times in a row; is something else changing %s?", errOvertaken, readAttempts, dir)
}

// Times says when the bytes of a part of the log of dir were read from their program: the
// first of it is of r.From or less, and each holds up to the next. It is empty where no
// times were kept, as of a log that an older version wrote.
func Times(dir string, r Range) ([]rpc.LogTime, error) {
	marks, err := readTimes(dir, r)
	if err != nil {
		return nil, err
	}
	var out []rpc.LogTime
	for _, m := range marks {
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
	all, err := readTimes(dir, Range{To: math.MaxInt64})
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
	starts = append(starts, rpc.LogTime{Offset: l.end(), At: now})
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
func Starts(dir string) ([]rpc.LogTime, error) { return readMarks(filepath.Join(dir, startsName)) }
