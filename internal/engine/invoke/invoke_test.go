package invoke

import (
	"errors"
	"testing"

	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

func TestAnInstanceWithoutAnOrder(t *testing.T) {
	_, err := Do(t.Context(), "shop.db.0", &wire.Order{}, &rpc.Invocation{}, nil)
	if !errors.Is(err, state.ErrNoInstance) {
		t.Errorf("a request to an instance without an order: %v", err)
	}
}
