package textpages

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix" // the system's own: what the standard library does not name
)

// span of addresses, [from, to).
type span struct{ from, to uintptr }

// Release unmaps the code and the constants of this program. What is used next is mapped again.
func Release() error {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("find the program: %w", err)
	}
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return fmt.Errorf("find the pages of the program: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	spans, err := untouched(f, program)
	if err != nil {
		return fmt.Errorf("find the pages of the program: %w", err)
	}
	for _, s := range spans {
		if _, _, e := unix.Syscall(unix.SYS_MADVISE, s.from, s.to-s.from, unix.MADV_DONTNEED); e != 0 {
			return fmt.Errorf("unmap pages of the program: %w", e)
		}
	}
	return nil
}

// untouched are the mappings of a file, as /proc/PID/smaps has them, that nobody may write to and
// of which no page differs from the file.
func untouched(smaps io.Reader, file string) (out []span, _ error) {
	var at span
	ours := false
	for lines := bufio.NewScanner(smaps); ; {
		if !lines.Scan() {
			return out, lines.Err()
		}
		line := lines.Text()
		if s, rest, ok := mapping(line); ok {
			at = s
			// Permissions, offset, device, inode, and the file's name, which may have spaces.
			f := strings.SplitN(rest, " ", 5)
			ours = len(f) == 5 && (f[0] == "r-xp" || f[0] == "r--p") && strings.TrimLeft(f[4], " ") == file
			continue
		}
		// The kernel counts here what differs from the file.
		if v, is := strings.CutPrefix(line, "Anonymous:"); is && ours && strings.TrimSpace(v) == "0 kB" {
			out = append(out, at)
		}
	}
}

// mapping is the first line of one; false: it is another line.
func mapping(line string) (s span, rest string, ok bool) {
	addresses, rest, _ := strings.Cut(line, " ")
	from, to, ok := strings.Cut(addresses, "-")
	if !ok {
		return span{}, "", false
	}
	a, errA := strconv.ParseUint(from, 16, strconv.IntSize)
	b, errB := strconv.ParseUint(to, 16, strconv.IntSize)
	return span{uintptr(a), uintptr(b)}, rest, errA == nil && errB == nil && a < b
}
