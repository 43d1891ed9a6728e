package stats

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// clients ask for what is in demand once.
type clients struct {
	asked  chan struct{}
	demand []wire.ServiceDemand
}

func (c *clients) Asked() <-chan struct{} { return c.asked }

func (c *clients) Demand() []wire.ServiceDemand {
	d := c.demand
	c.demand = nil
	return d
}

func (c *clients) Answers() []wire.InstanceAnswers { return nil }

// While nobody asks for anything an answer is held; then it is about a while, with the most
// wanted services first and no more of them than a message may have.
func TestDemandIsHeldAndBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clients{asked: make(chan struct{}, 1)}
		d := NewDemand(c, nil)
		began := time.Now()
		if got, err := d.Next(t.Context(), time.Minute); err != nil || len(got.Services) != 0 ||
			time.Since(began) != time.Minute {
			t.Errorf("%+v, %v after %s", got, err, time.Since(began))
		}
		for i := range wire.MaxDemandServices + 5 {
			c.demand = append(c.demand, wire.ServiceDemand{Service: strconv.Itoa(i), Requests: uint64(i)})
		}
		c.asked <- struct{}{}
		began = time.Now()
		got, err := d.Next(t.Context(), time.Minute)
		if err != nil || len(got.Services) != wire.MaxDemandServices ||
			got.Services[0].Service != strconv.Itoa(wire.MaxDemandServices+4) {
			t.Errorf("%d services, %v", len(got.Services), err)
		}
		if took := time.Since(began); took != demandEvery || got.Span.Std() != demandEvery {
			t.Errorf("after %s about %s", took, got.Span)
		}
	})
}
