package cli

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
)

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", 12*time.Second + 900*time.Millisecond: "12s", 119 * time.Second: "119s",
		2 * time.Minute: "2m", 119 * time.Minute: "119m", 2 * time.Hour: "2h", 47 * time.Hour: "47h", 49 * time.Hour: "2d",
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
