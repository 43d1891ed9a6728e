package descriptor

import (
	"testing"

	"github.com/verge-edge/verge/api"
)

// TestRuntimeFollowsFromTheProgram: who brings an image or a module need not say what
// runs it.
func TestRuntimeFollowsFromTheProgram(t *testing.T) {
	t.Parallel()
	for brings, want := range map[string]string{
		"image: nginx":                              api.Container,
		"image: nginx\n    command: [nginx]":        api.Container,
		"module: hello.wasm":                        api.Wasm,
		"command: [sleep]":                          "process",
		"runtime: process\n    command: [sleep]":    "process",
		"runtime: container\n    image: nginx:1.29": api.Container,
	} {
		a, _, err := Parse("a.yaml", []byte("application: a\nservices:\n  web:\n    "+brings+"\n"))
		if err != nil {
			t.Errorf("%s: %v", brings, err)
			continue
		}
		if got := a.Services["web"].Runtime; got != want {
			t.Errorf("%s: runtime %q, want %q", brings, got, want)
		}
	}
}
