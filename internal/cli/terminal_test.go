package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", 12*time.Second + 900*time.Millisecond: "12s", 119 * time.Second: "119s",
		2 * time.Minute: "2m", 119 * time.Minute: "119m", 2 * time.Hour: "2h", 47 * time.Hour: "47h",
		49 * time.Hour: "2d",
	} {
		if got := age(d); got != want {
			t.Errorf("%s is %s, want %s", d, got, want)
		}
	}
	if got := ageOf(-1); got != "never" {
		t.Errorf("no report is %s", got)
	}
}

func TestAmounts(t *testing.T) {
	if got := cores(6500) + " " + cores(8000) + " " + cores(0); got != "6.5 8 0" {
		t.Error(got)
	}
	if got := size(api.Bytes(3<<29)) + " " + size(1<<40) + " " + size(512); got != "1.5Gi 1Ti 512" {
		t.Error(got)
	}
}

// What others chose never reaches the terminal as an escape sequence.
func TestClean(t *testing.T) {
	if got := clean("a\x1b[2Jb\u009bc\nd"); got != "a [2Jb c d" {
		t.Errorf("%q", got)
	}
}

// An error may hold what a server, or a program that it tells of, has chosen.
func TestErrorsAreClean(t *testing.T) {
	var out strings.Builder
	a := &app{err: &out}
	a.printError(&wire.Problem{Title: "refused", Detail: "\x1b]0;title\ait says\x1b[2J no", Remedy: "try\ragain"})
	if got, want := out.String(), "verge: refused:  ]0;title it says [2J no\n  → try again\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestOnlyAnAddressIsSuggested(t *testing.T) {
	for s, want := range map[string]bool{
		"10.0.0.1:80": true, "[2001:db8::1]:8080": true, "gw.example:8080": true,
		"": false, "10.0.0.1": false, "$(reboot):80": false, "a:80/\x1b[2J": false, "a:80; b": false,
	} {
		if isAddress(s) != want {
			t.Errorf("%q: %v", s, !want)
		}
	}
}
