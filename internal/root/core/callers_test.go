package core_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/root/core"
)

func TestStrangersAreNamed(t *testing.T) {
	var c core.Callers
	for n := range core.MaxCallers + 10 {
		c.Note(fmt.Sprintf("c%d", n))
	}
	c.Note("c1")
	now := time.Now()
	known := map[string]bool{"c1": true}
	got := c.Strangers(known, now)
	if len(got) != core.MaxCallers-1 || !strings.Contains(got[0], "cluster c0 ") ||
		!strings.Contains(got[0], "--cluster c0") {
		t.Errorf("%d: %.200v", len(got), got)
	}
	if got := c.Strangers(known, now.Add(2*core.CallerFor)); len(got) != 0 {
		t.Errorf("those that have gone are spoken of: %d", len(got))
	}
}
