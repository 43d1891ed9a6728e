// In virtual time and one goroutine, where no race can be: make unit runs it without the detector.
//go:build !race

package root

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestStrangersAreNamed(t *testing.T) {
	var c callers
	for n := range maxCallers + 10 {
		c.note(fmt.Sprintf("c%d", n))
	}
	c.note("c1")
	now := time.Now()
	known := map[string]bool{"c1": true}
	got := c.strangers(known, now)
	if len(got) != maxCallers-1 || !strings.Contains(got[0], "cluster c0 ") || !strings.Contains(got[0], "--cluster c0") {
		t.Errorf("%d: %.200v", len(got), got)
	}
	if got := c.strangers(known, now.Add(2*callerFor)); len(got) != 0 {
		t.Errorf("those that have gone are spoken of: %d", len(got))
	}
}
