package logfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of a log that is written by this package. On disk it has at most MaxSize bytes at
// every moment: the live file and keptSegments segments, each with its times.
const (
	keptSegments = 4
	segmentSize  = 4 << 20
	// maxTimes is what of a segment's size is for its times.
	maxTimes = 256 << 10
	maxData  = segmentSize - maxTimes

	// MaxSize of a log on disk. The names of starts and the base are some hundred bytes more.
	MaxSize = (keptSegments + 1) * segmentSize
)

// store appends to the log of one directory. Where it says so, the directory's lock is
// held by the caller.
type store struct {
	dir string
	// data and times bound a live file, segments how many are kept beside it.
	data, times int64
	segments    int
	// dropped are bytes that could not be written and of which the log does not tell yet.
	dropped int64
	why     error
	// seen is the live file as the last write left it.
	seen liveFile
}

// liveFile is what is known of a live file and its times. It holds while the file of that
// name is the same and has the same size: then nobody else has written to the log.
type liveFile struct {
	dev, ino          uint64
	size, base, times int64
	last              int64 // the time of the last mark, in nanoseconds; 0: none
}

func newStore(dir string) *store {
	return &store{dir: dir, data: maxData, times: maxTimes, segments: keptSegments}
}

// Append writes p to the log of dir, within the bound of every log. It is for programs
// within this process; others write to a pipe (see Collector).
func Append(dir string, p []byte) error {
	unlock, err := lockWait(dir)
	if err != nil {
		return err
	}
	defer unlock()
	return newStore(dir).put(p, time.Now())
}

// put appends p, which was read at a time. What cannot be written is dropped, and told of
// in the log as soon as something can be written again: nobody may wait for a disk that is
// full. The lock is held.
func (s *store) put(p []byte, now time.Time) error {
	if s.dropped > 0 {
		note := fmt.Appendf(nil, "[verge: %d bytes of output were lost here: %v]\n", s.dropped, s.why)
		if _, err := s.append(note, now); err != nil {
			s.dropped += int64(len(p))
			return err
		}
		s.dropped, s.why = 0, nil
	}
	n, err := s.append(p, now)
	if err != nil {
		s.dropped, s.why = s.dropped+int64(len(p)-n), err
		if errno := syscall.Errno(0); errors.As(err, &errno) {
			s.why = errno // where the log is on the worker is not for its readers
		}
	}
	return err
}

// append returns how many bytes it has written. The lock is held.
func (s *store) append(p []byte, now time.Time) (written int, err error) {
	for written < len(p) {
		n, err := s.some(p[written:], now)
		written += n
		if diskFull(err) && s.prune(1) {
			continue // it may be this log that has filled the disk
		}
		if err != nil {
			return written, fmt.Errorf("write log: %w", err)
		}
	}
	return written, nil
}

// some writes as much of p as the live file may still hold, and begins a new one where
// that is nothing. The files are opened by system calls: package os would offer each of them
// to the poller, which takes no files.
func (s *store) some(p []byte, now time.Time) (int, error) {
	fd, err := openFile(Live(s.dir), unix.O_APPEND|unix.O_CREAT|unix.O_WRONLY)
	if err != nil {
		return 0, fmt.Errorf("open log: %w", err)
	}
	defer unix.Close(fd) //nolint:errcheck // errors of writing are those of write
	if err := s.look(fd); err != nil {
		return 0, err
	}
	size := s.seen.size
	full := s.seen.times+markSize > s.times
	if room := s.data - size; int64(len(p)) > room || full {
		// A segment ends with a line where one fits.
		end := bytes.LastIndexByte(p[:max(0, min(room, int64(len(p))))], '\n') + 1
		if (end == 0 || full) && size > 0 {
			return 0, s.turn(size)
		}
		if end == 0 {
			end = int(min(s.data, int64(len(p))))
		}
		p = p[:end]
	}
	if err := s.stamp(s.seen.base+size, now); err != nil && !diskFull(err) {
		return 0, err
	}
	n, err := unix.Write(fd, p)
	for errors.Is(err, unix.EINTR) {
		n, err = unix.Write(fd, p)
	}
	n = max(n, 0)
	s.seen.size += int64(n)
	return n, err
}

// look finds out where the live file begins, and its times end, unless that is known.
func (s *store) look(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	dev := uint64(st.Dev) //nolint:gosec,unconvert // a name; another size on other systems
	if st.Size > 0 && s.seen.dev == dev && s.seen.ino == st.Ino && s.seen.size == st.Size {
		return nil
	}
	if st.Size == 0 {
		if err := s.settle(); err != nil {
			return err
		}
	}
	base, err := readBase(s.dir)
	if err != nil {
		return err
	}
	seen := liveFile{dev: dev, ino: st.Ino, size: st.Size, base: base}
	if seen.times, seen.last, err = lastMark(s.timesPath()); err != nil {
		return err
	}
	s.seen = seen
	return nil
}

func openFile(path string, flags int) (fd int, err error) {
	for {
		fd, err = unix.Open(path, flags|unix.O_CLOEXEC, filePerm)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// settle completes what a crash has left undone of turn, while the live file is empty: the
// base, and the times of the last segment.
func (s *store) settle() error {
	l, err := load(s.dir)
	if err != nil {
		return err
	}
	if l.cut {
		if err := writeBase(s.dir, l.base); err != nil {
			return err
		}
	}
	var of string // whose times they may be
	if n := len(l.segments); n > 0 {
		of = s.timesOf(l.segments[n-1].start)
	}
	if _, there := os.Lstat(of); of == "" || there == nil {
		err = os.Remove(s.timesPath()) // of a write that failed
	} else {
		err = os.Rename(s.timesPath(), of)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// turn makes the live file, which has size bytes, a segment. Room for it is made first, so
// that the bound holds in between too.
func (s *store) turn(size int64) error {
	l, err := load(s.dir)
	if err != nil {
		return err
	}
	if n := len(l.segments) + 1 - s.segments; n > 0 {
		s.prune(n)
	}
	is := segment{start: l.base, size: size}
	if err := os.Rename(Live(s.dir), is.path(s.dir)); err != nil {
		return err
	}
	if err := os.Rename(s.timesPath(), s.timesOf(is.start)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return writeBase(s.dir, is.end())
}

// prune removes the n oldest segments, and says whether there was one.
func (s *store) prune(n int) bool {
	list, err := listSegments(s.dir)
	if err != nil || len(list) == 0 {
		return false
	}
	for _, old := range list[:min(n, len(list))] {
		if os.Remove(s.timesOf(old.start)) != nil || os.Remove(old.path(s.dir)) != nil {
			// It has no times, or is gone.
			_ = os.Remove(old.path(s.dir))
		}
	}
	return true
}

func (s *store) timesPath() string { return s.dir + "/" + timesName }

func (s *store) timesOf(start int64) string {
	return s.timesPath() + "." + strconv.FormatInt(start, 10)
}
