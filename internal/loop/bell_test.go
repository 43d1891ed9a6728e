package loop_test

import (
	"testing"

	"github.com/verge-edge/verge/internal/loop"
)

func TestBell(t *testing.T) {
	var b loop.Bell
	b.Ring() // nobody hears it
	one, two := b.Listen(), b.Listen()
	select {
	case <-one:
		t.Fatal("it rang before it was rung")
	default:
	}
	b.Ring()
	<-one
	<-two
	select {
	case <-b.Listen():
		t.Fatal("an old ring is heard")
	default:
	}
	if n := testing.AllocsPerRun(100, b.Ring); n > 0.1 {
		t.Errorf("%g allocations for a ring that nobody hears", n)
	}
}
