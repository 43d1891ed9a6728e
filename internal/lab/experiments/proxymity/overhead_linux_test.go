package proxymity

import (
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/lab/experiment"
)

func TestOverheadCanFail(t *testing.T) {
	off := idleCost{cpu: 15, memory: 20, private: 12, among: traffic{5, 700}, control: traffic{16, 2500}}
	for want, change := range map[string]func(*idleCost){
		"":              func(*idleCost) {},
		"cpu_added":     func(c *idleCost) { c.cpu += 600*mostAddedCPU + 1 },
		"memory_added":  func(c *idleCost) { c.private += mostAddedMemory + 0.1 },
		"packets_added": func(c *idleCost) { c.among.packets += mostAddedPackets + 1 },
	} {
		e, on := &experiment.Env{}, off
		change(&on)
		overheadRows(e, 12, off, on)
		var short []string
		for _, r := range e.Rows {
			if r.Short != "" {
				short = append(short, r.Metric)
			}
		}
		if got := strings.Join(short, " "); got != want || len(e.Rows) != 2*7+4 {
			t.Errorf("%q falls short in %d rows, want %q", got, len(e.Rows), want)
		}
	}
}
