package textpages

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// mapped is how many KB of this program are mapped, but for what may be written.
func mapped(t *testing.T) (kb int) {
	t.Helper()
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	ours := false
	for line := range strings.Lines(string(b)) {
		if _, rest, ok := mapping(line); ok {
			ours = strings.HasPrefix(rest, "r") && !strings.HasPrefix(rest, "rw") && strings.Contains(rest, program)
		}
		if v, is := strings.CutPrefix(line, "Rss:"); is && ours {
			n, err := strconv.Atoi(strings.Fields(v)[0])
			if err != nil {
				t.Fatal(err)
			}
			kb += n
		}
	}
	return kb
}

// What the program does not use is unmapped, and it goes on as before.
func TestRelease(t *testing.T) {
	letters := func() (n int) {
		for r := range rune(unicode.MaxRune) {
			if unicode.IsLetter(r) {
				n++
			}
		}
		return n
	}
	want, before := letters(), mapped(t)
	if err := Release(); err != nil {
		t.Fatal(err)
	}
	after := mapped(t)
	if after >= before {
		t.Errorf("%d KB of the program are mapped, before %d KB", after, before)
	}
	if got := letters(); got != want {
		t.Errorf("%d letters, before %d", got, want)
	}
}

func TestUntouched(t *testing.T) {
	const smaps = `00400000-02000000 r-xp 00000000 fe:00 1234                       /opt/my program/verge
Size:              28672 kB
Rss:               10000 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
02000000-04000000 r--p 01c00000 fe:00 1234                       /opt/my program/verge
Rss:               10000 kB
Anonymous:             4 kB
04000000-04100000 rw-p 03c00000 fe:00 1234                       /opt/my program/verge
Anonymous:             0 kB
04100000-04200000 r--p 00000000 fe:00 1234                       /opt/my program/verge
Anonymous:             0 kB
c000000000-c000400000 rw-p 00000000 00:00 0
Anonymous:             0 kB
7f0000000000-7f0000001000 r-xp 00000000 00:00 0                  [vdso]
Anonymous:             0 kB
7f0000001000-7f0000002000 r-xp 00000000 fe:00 99                 /opt/my program/verge-lab
Anonymous:             0 kB
`
	want := []span{{0x400000, 0x2000000}, {0x4100000, 0x4200000}}
	got, err := untouched(strings.NewReader(smaps), "/opt/my program/verge")
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%x, %v", got, err)
	}
}
