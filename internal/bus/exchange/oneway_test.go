package exchange_test

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// Who has something to say does not wait until the kernel of the other end acknowledges a
// one-way report: neither after a nudge that brought what is new, nor after a heartbeat.
func TestAOneWayReportHoldsNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		p.low.AcknowledgeAfter(50 * time.Millisecond)
		p.put("to.w1.a", `1`)
		time.Sleep(time.Minute)
		synctest.Wait()
		have := p.desired.Have()
		p.put("to.w1.a", `2`)
		p.notifier.Tell("w1", p.upperDesired("w1"), have)
		synctest.Wait()
		equal(t, "desired", p.desired.get(), map[string]string{"order.a": "2"})
		p.observe("a", `"running"`)
		synctest.Wait()
		equal(t, "observed", p.seen(), map[string]string{"a": `"running"`})

		for n := range 200 { // at all times of a heartbeat
			time.Sleep(time.Minute + time.Duration(n)*51*time.Millisecond)
			p.observe("a", strconv.Itoa(n))
			synctest.Wait()
			equal(t, "observed", p.seen(), map[string]string{"a": strconv.Itoa(n)})
		}
	})
}
