package httpmsg

import (
	"net/http"
	"testing"
	"time"
)

// Whoever is asked never has less time than there is: he would break off before the
// deadline, and be taken for broken.
func TestTimeLeftIsRoundedUp(t *testing.T) {
	now := time.Now()
	for _, left := range []time.Duration{0, 1, time.Microsecond + 1, 99*time.Millisecond + 1, 100 * time.Second,
		time.Hour + 1} {
		for _, h := range []http.Header{{}, {HeaderGRPCTimeout: {"1S"}}} {
			SetTimeLeft(h, left)
			if got := ClientDeadline(h, now).Sub(now); got < left || got > left+time.Millisecond {
				t.Errorf("%s came as %s by %v", left, got, h)
			}
		}
	}
}
