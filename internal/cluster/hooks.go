package cluster

import (
	"context"

	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

func hooksOfRoot() error { return rest.Elsewhere("a hook", "the root") }

// SetHook implements rest.Backend.
func (b backend) SetHook(context.Context, string, string, wire.HookRequest) (wire.HookView, error) {
	return wire.HookView{}, hooksOfRoot()
}

// RotateHook implements rest.Backend.
func (b backend) RotateHook(context.Context, string, string, string, int) (wire.HookView, error) {
	return wire.HookView{}, hooksOfRoot()
}

// RemoveHook implements rest.Backend.
func (b backend) RemoveHook(context.Context, string, string) (wire.HookView, error) {
	return wire.HookView{}, hooksOfRoot()
}

// PauseHook implements rest.Backend.
func (b backend) PauseHook(context.Context, string, string) (wire.HookView, error) {
	return wire.HookView{}, hooksOfRoot()
}

// ResumeHook implements rest.Backend.
func (b backend) ResumeHook(context.Context, string, string) (wire.HookView, error) {
	return wire.HookView{}, hooksOfRoot()
}

// TestHook implements rest.Backend.
func (b backend) TestHook(context.Context, string, string) (wire.HookTested, error) {
	return wire.HookTested{}, hooksOfRoot()
}

// Hooks implements rest.Backend.
func (b backend) Hooks(context.Context) ([]wire.HookView, error) { return nil, hooksOfRoot() }
