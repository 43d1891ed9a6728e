package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/container/imagestore"
	"github.com/verge-edge/verge/internal/wire"
)

// fakeStore has images that can be removed.
type fakeStore struct {
	*fakeImager

	mu    sync.Mutex
	asked []string
	gone  []imagestore.Gone // by the next question
}

func (s *fakeStore) Collect(_ context.Context, needed map[string]bool, age time.Duration, high int) ([]imagestore.Gone,
	error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, fmt.Sprint(slices.Sorted(maps.Keys(needed)), " ", age, " ", high))
	gone := s.gone
	s.gone = nil
	return gone, nil
}

func (s *fakeStore) questions() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// What is ordered is never removed, also where it sleeps; and where an image does not
// fit, others go and it is tried once more.
func TestImagesAreCollected(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		s := &fakeStore{fakeImager: &fakeImager{fakeDriver: newFakeDriver(), errs: []error{
			fmt.Errorf("%w for it", runtime.ErrNoRoom), nil, fmt.Errorf("%w for it", runtime.ErrNoRoom),
		}}, gone: []imagestore.Gone{{Name: "docker.io/library/old:1", Size: 1, Why: "for a test"}}}
		r.stop()
		r.config.Pull = engineapi.PullConfig{KeepUnused: api.Duration(time.Hour), DiskHigh: 85}
		r.more = map[string]runtime.Driver{api.Container: s}
		r.start()
		o := contained(1)
		o.Sleep = &wire.Sleep{Idle: api.Duration(time.Minute)}
		r.apply(o)
		after(time.Minute)
		if fetches, _ := s.counts(); fetches != 2 {
			t.Errorf("%d fetches, want one more after there was room", fetches)
		}
		after(2 * time.Hour)
		asked := s.questions()
		const needed = "[docker.io/library/shop:1] 1h0m0s "
		if len(asked) != 3 || asked[0] != needed+"43" || asked[1] != needed+"85" || asked[2] != needed+"85" {
			t.Errorf("%q", asked)
		}
		next := contained(2)
		r.apply(next)
		after(time.Second)
		if fetches, _ := s.counts(); fetches < 3 {
			t.Errorf("%d fetches", fetches)
		}
		if st := r.status(web0); st.Phase == wire.PhaseRunning && len(s.questions()) < 4 {
			t.Errorf("nothing could go, and it was tried again at once: %+v", st)
		}
	})
}
