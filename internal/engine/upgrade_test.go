package engine

import (
	"context"
	"errors"
	"testing"

	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/wire"
)

func TestUpgradeIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply(order(0, 1, 100))
		_, err := r.e.Upgrade(context.Background(), engineapi.EngineUpgrade{Program: "/bin/true"})
		if p := new(wire.Problem); !errors.As(err, &p) || p.Code != "no-process" {
			t.Errorf("an engine that is part of another process: %v", err)
		}
	})
}
