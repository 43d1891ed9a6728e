package logfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Names of the files in a log directory.
const (
	liveName   = "output.log"
	tempName   = "output.log.tmp"
	baseName   = "output.base"
	pipeName   = "output.pipe"
	timesName  = "output.times"
	startsName = "output.starts"
)

// filePerm lets the owner's group read logs, nobody else: they hold what
// programs print, and programs print secrets.
const filePerm = 0o640

// Open opens the live file of dir for a program's stdout and stderr, creating
// it if need be.
func Open(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, liveName), os.O_APPEND|os.O_CREATE|os.O_WRONLY, filePerm)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	return f, nil
}

// segment is an archived part of the log.
type segment struct{ start, size int64 }

func (s segment) end() int64 { return s.start + s.size }

func (s segment) path(dir string) string {
	return filepath.Join(dir, liveName+"."+strconv.FormatInt(s.start, 10))
}

// layout is where the bytes of a log are at one moment.
type layout struct {
	segments []segment // ascending by start
	base     int64     // offset of the live file's first byte
	size     int64     // of the live file
	// first is the offset from which the live file is to be read: behind what
	// is archived, and behind a hole whose segment was lost.
	first int64
	// cut says that the live file was truncated by somebody else and base is
	// therefore not what output.base says.
	cut bool
}

// end is the number of bytes ever logged.
func (l *layout) end() int64 { return l.base + l.size }

// archived is the end of the newest segment, 0 without segments.
func (l *layout) archived() int64 {
	var end int64
	for _, s := range l.segments {
		end = max(end, s.end())
	}
	return end
}

// load looks at dir. A directory without a log is an empty log.
func load(dir string) (*layout, error) {
	for range readAttempts {
		l, err := loadOnce(dir)
		if !errors.Is(err, errOvertaken) {
			return l, err
		}
	}
	return nil, fmt.Errorf("look at log: %w %d times in a row; is something else changing %s?",
		errOvertaken, readAttempts, dir)
}

func loadOnce(dir string) (*layout, error) {
	live, err := os.Open(Live(dir))
	if errors.Is(err, fs.ErrNotExist) {
		live = nil // nothing was logged yet, or it has just become a segment
	} else if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	if live != nil {
		defer live.Close() //nolint:errcheck // read only
	}

	l := &layout{}
	if l.segments, err = listSegments(dir); err != nil {
		return nil, err
	}
	if l.base, err = readBase(dir); err != nil {
		return nil, err
	}
	if l.size, err = liveSize(dir, live); err != nil {
		return nil, err
	}

	archived := l.archived()
	if l.end() < archived {
		l.base, l.cut = archived, true
	}
	l.first = max(l.base, archived)
	if l.first < l.end() {
		data, err := seekData(live, l.first-l.base, l.size)
		if err != nil {
			return nil, fmt.Errorf("find data in log: %w", err)
		}
		l.first = l.base + data
	}
	return l, nil
}

// liveSize is the size of the live file of dir, which is open as live, or nil where there
// was none. It returns errOvertaken if another file has that name by now.
func liveSize(dir string, live *os.File) (int64, error) {
	named, err := os.Stat(Live(dir))
	switch {
	case errors.Is(err, fs.ErrNotExist) && live == nil:
		return 0, nil
	case errors.Is(err, fs.ErrNotExist), err == nil && live == nil:
		return 0, errOvertaken
	case err != nil:
		return 0, fmt.Errorf("stat log: %w", err)
	}
	st, err := live.Stat()
	if err != nil {
		return 0, fmt.Errorf("stat log: %w", err)
	}
	if !os.SameFile(st, named) {
		return 0, errOvertaken
	}
	return st.Size(), nil
}

func listSegments(dir string) ([]segment, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list log segments: %w", err)
	}
	var out []segment
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), liveName+".")
		if !ok {
			continue
		}
		start, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || start < 0 {
			continue // not one of ours
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // pruned meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("stat log segment: %w", err)
		}
		out = append(out, segment{start: start, size: info.Size()})
	}
	slices.SortFunc(out, func(a, b segment) int {
		switch {
		case a.start < b.start:
			return -1
		case a.start > b.start:
			return 1
		}
		return 0
	})
	return out, nil
}

func readBase(dir string) (int64, error) {
	b, err := os.ReadFile(filepath.Join(dir, baseName))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read log base: %w", err)
	}
	base, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil || base < 0 {
		// Not fatal: the newest segment bounds the base from below (see load), and
		// a log that cannot be read at all would be worse than a wrong offset.
		return 0, nil //nolint:nilerr // as the comment says
	}
	return base, nil
}

func writeBase(dir string, base int64) error {
	path := filepath.Join(dir, baseName)
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, strconv.AppendInt(nil, base, 10), filePerm); err != nil {
		return fmt.Errorf("write log base: %w", err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("write log base: %w", err)
	}
	return nil
}

// Live is the file of dir that programs append to.
func Live(dir string) string { return filepath.Join(dir, liveName) }

// End is the number of bytes ever logged in dir.
func End(dir string) (int64, error) {
	l, err := load(dir)
	if err != nil {
		return 0, err
	}
	return l.end(), nil
}
