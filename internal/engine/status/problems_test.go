package status

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/engineapi"
)

func TestProblemsAreToldOnce(t *testing.T) {
	t.Parallel()
	b := NewBoard(engineapi.EngineInfo{})
	var lines strings.Builder
	p := NewProblems(slog.New(slog.NewTextHandler(&lines, nil)), b)
	for range 3 {
		p.Set("disk", errors.New("full"))
	}
	if s, _, _ := b.Since(0); s.Seq != 1 || len(s.Info.Problems) != 1 || s.Info.Problems[0] != "disk: full" {
		t.Errorf("%+v", s)
	}
	for i := range 2 * maxProblems {
		p.Set(fmt.Sprintf("x%03d", i), errors.New("bad"))
	}
	if s, _, _ := b.Since(0); len(s.Info.Problems) != maxProblems+1 {
		t.Errorf("%d problems shown", len(s.Info.Problems))
	}
	p.Set("disk", nil)
	p.Set("disk", nil)
	if n := strings.Count(lines.String(), "about=disk"); n != 2 {
		t.Errorf("%d lines about it, want one at its begin and one at its end:\n%s", n, lines.String())
	}
}
