package data

import (
	"testing"
)

// That a worker is out of the routes is not missed by who has just finished with looking
// after the connections to it, since it was suspect.
func TestGoneAtTheEndOfALook(t *testing.T) {
	t.Parallel()
	const addr = "192.0.2.1:7000"
	p := &Paths{dialled: map[string]int{addr: 1}}
	left := p.Begin(addr, false)
	if left == nil || p.Begin(addr, true) != nil {
		t.Fatal("one looks after it, and no other")
	}
	if p.End(addr, left) {
		t.Error("that it is gone was not looked at")
	}
	if !p.End(addr, left) || p.Begin(addr, true) == nil {
		t.Error("then it is over, and begins anew")
	}
}
