package claim

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/verge-edge/verge/internal/overlay/nstest"
)

// Of many that want the network of a machine at once one gets it, the others learn
// who that is, and when it lets go the next one can have it.
func TestOneTakesIt(t *testing.T) {
	nstest.Need(t)
	nstest.New(t).Do(func() {
		if who, has := Holder(); has {
			t.Errorf("%s has what nobody took", who)
		}
	})
	h := nstest.New(t)
	const all = 8
	var mu sync.Mutex
	var won []*Claim
	var lost []error
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() {
			h.Do(func() {
				c, err := Take(fmt.Sprintf("worker edge/%d", i))
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					lost = append(lost, err)
				} else {
					won = append(won, c)
				}
			})
		})
	}
	wg.Wait()
	if len(won) != 1 || len(lost) != all-1 {
		t.Fatalf("%d took it, %d were refused", len(won), len(lost))
	}
	for _, err := range lost {
		var taken *TakenError
		if !errors.As(err, &taken) || !strings.HasPrefix(taken.Who, "worker edge/") ||
			!strings.Contains(taken.Who, "process ") {
			t.Errorf("refused: %v", err)
		}
	}
	if err := won[0].Close(); err != nil {
		t.Fatal(err)
	}
	h.Do(func() {
		c, err := Take("the next")
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}
