package lab

import (
	"fmt"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/lab/emul"
)

// Describe a link in words.
func Describe(l emul.Link) string {
	if l.Cut {
		return "cut"
	}
	parts := []string{l.Latency.String()}
	if l.Jitter > 0 {
		parts[0] += " ± " + l.Jitter.String()
	}
	if l.Reorder {
		parts = append(parts, "reordering")
	}
	if l.Loss > 0 {
		parts = append(parts, fmt.Sprintf("%.3g %% lost", l.Loss*100))
	}
	if l.Rate > 0 {
		parts = append(parts, api.Bitrate(l.Rate).String())
	}
	if l.Buffer > 0 {
		parts = append(parts, api.Bytes(l.Buffer).String()+" buffer")
	}
	return strings.Join(parts, ", ")
}
