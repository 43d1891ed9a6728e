package images

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/container/imagestore"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// keeper is a driver that has images, and a cluster that is told which went.
type keeper struct {
	runtime.Driver
	asked []map[string]bool
	told  []rpc.ImageGone
}

func (k *keeper) Collect(_ context.Context, needed map[string]bool, _ time.Duration, _ int) ([]imagestore.Gone, error) {
	k.asked = append(k.asked, needed)
	return []imagestore.Gone{{Name: "docker.io/library/old:1", Size: 1}}, nil
}

func (k *keeper) ImageSources(context.Context, string) ([]rpc.ImageSource, error) { return nil, nil }

func (k *keeper) ImagesGone(_ context.Context, gone []rpc.ImageGone) error {
	k.told = append(k.told, gone...)
	return nil
}

// Nothing is removed while the orders are not known; then all but what they name may be,
// and the cluster is told.
func TestOnlyWhatNothingNeedsIsRemoved(t *testing.T) {
	k, known := &keeper{}, false
	m := New(Options{
		Pull:    engineapi.PullConfig{KeepUnused: api.Duration(time.Hour), DiskHigh: 85},
		Drivers: map[string]runtime.Driver{"container": k}, Above: k,
		Ordered: func() (map[string]string, bool) {
			return map[string]string{"docker.io/library/shop:1": "shop:1"}, known
		},
		Log: slog.New(slog.DiscardHandler),
	})
	if m.MakeRoom(t.Context()) || len(k.asked) != 0 {
		t.Fatal("images were removed although nobody knows what is needed")
	}
	known = true
	if !m.MakeRoom(t.Context()) || len(k.asked) != 1 || !k.asked[0]["docker.io/library/shop:1"] || len(k.told) != 1 {
		t.Errorf("asked %v, told %v", k.asked, k.told)
	}
	if m.Samples() != nil {
		t.Error("figures of a driver that copies nothing")
	}
}
