package exchange_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/wire"
)

func changes(from, to int, value string) []wire.Change {
	var out []wire.Change
	for i := from; i < to; i++ {
		out = append(out, wire.Change{Key: fmt.Sprintf("k%04d", i), Value: json.RawMessage(value)})
	}
	return out
}

// A peer that reports without end fills nobody's memory: neither with keys, nor
// with long values, nor with the pages of a state that never ends.
func TestAnInboxIsBounded(t *testing.T) {
	at := func(n uint64) wire.Rev { return wire.Rev{Inc: "x", N: n} }
	b := &exchange.Inbox{MaxKeys: 10, MaxBytes: 4 << 10}
	if got := b.Accept(wire.Report{To: at(1), Changes: changes(0, 15, "1")}); len(got) != 10 || len(b.State()) != 10 || b.Overflow() != 5 {
		t.Fatalf("%d changes, %d keys, %d left out, want 10, 10 and 5", len(got), len(b.State()), b.Overflow())
	}
	// What is there may change, what goes makes room.
	got := b.Accept(wire.Report{From: at(1), To: at(2), Changes: append(append(changes(0, 1, "2"), wire.Change{Key: "k0001", Deleted: true}), changes(20, 22, "3")...)})
	if len(got) != 3 || string(b.State()["k0000"]) != "2" || string(b.State()["k0020"]) != "3" || b.State()["k0021"] != nil {
		t.Fatalf("took %v, has %v", got, b.State())
	}
	long := `"` + strings.Repeat("x", 5<<10) + `"`
	if got := b.Accept(wire.Report{From: at(2), To: at(3), Changes: changes(0, 1, long)}); len(got) != 0 || string(b.State()["k0000"]) != "2" {
		t.Fatalf("a value beyond the bound was taken over: %d changes", len(got))
	}
	if got := b.Accept(wire.Report{From: at(3), To: at(4), Changes: []wire.Change{{Key: strings.Repeat("k", 600), Value: json.RawMessage("1")}}}); len(got) != 0 {
		t.Fatal("a key that is too long was taken over")
	}
	var from wire.Rev
	for n := range 100 {
		b.Accept(wire.Report{From: from, To: at(uint64(10 + n)), More: true, Changes: changes(n*10, n*10+10, "4")})
		from = at(uint64(10 + n))
	}
	b.Accept(wire.Report{From: from, To: at(200), Changes: changes(5000, 5001, "4")})
	if len(b.State()) != 10 || b.Ack() != at(200) || b.Overflow() != 991 {
		t.Fatalf("%d keys at %v, %d left out, want 10 at 200 and 991", len(b.State()), b.Ack(), b.Overflow())
	}
	// It recovers when the peer does.
	b.Accept(wire.Report{To: at(300), Changes: changes(0, 3, "5")})
	if len(b.State()) != 3 || b.Overflow() != 0 {
		t.Fatalf("%d keys, %d left out, want 3 and none", len(b.State()), b.Overflow())
	}
	// The bytes are counted right: it can be filled and emptied for ever.
	for n := range uint64(1000) {
		c := changes(0, 10, strings.Repeat("7", 300))
		if n%2 == 1 {
			for i := range c {
				c[i] = wire.Change{Key: c[i].Key, Deleted: true}
			}
		}
		b.Accept(wire.Report{From: b.Ack(), To: at(1000 + n), Changes: c})
	}
	if len(b.State()) != 0 || b.Overflow() != 0 {
		t.Errorf("%d keys are left, %d were left out", len(b.State()), b.Overflow())
	}
}
