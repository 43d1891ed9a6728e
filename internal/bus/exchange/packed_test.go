package exchange

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/wire"
)

// What was packed is unpacked as it was; what is no such thing, or would become too large,
// is refused.
func TestPackedChanges(t *testing.T) {
	value := []byte(`"` + strings.Repeat("ab", 100_000) + `"`)
	small, err := packed(value)
	if err != nil {
		t.Fatal(err)
	}
	c, err := unpacked(wire.Change{Key: "k", Packed: small})
	if err != nil || !bytes.Equal(c.Value, value) || c.Packed != nil || c.Key != "k" {
		t.Fatalf("%d bytes became %d, %v", len(value), len(c.Value), err)
	}
	plain := wire.Change{Key: "k", Value: json.RawMessage(`1`)}
	if c, err := unpacked(plain); err != nil || string(c.Value) != "1" {
		t.Errorf("%+v, %v", c, err)
	}
	bomb, err := packed(make([]byte, maxUnpacked+1))
	if err != nil {
		t.Fatal(err)
	}
	for what, bad := range map[string][]byte{"cut off": small[:len(small)/2], "nothing": {}, "garbage": []byte("garbage"), "too large": bomb} {
		if c, err := unpacked(wire.Change{Key: "k", Packed: bad}); err == nil {
			t.Errorf("%s became %d bytes", what, len(c.Value))
		}
	}
}

// A route with as many endpoints as it may have fits into one message, packed.
func TestTheLargestRouteFitsIntoAMessage(t *testing.T) {
	var r wire.Route
	for i := range 12_000 {
		r.Endpoints = append(r.Endpoints, wire.Endpoint{
			Instance: fmt.Sprintf("shop.web.%d", i), Cluster: "edge", Worker: fmt.Sprintf("worker-%d", i*7919%9973),
			Address: fmt.Sprintf("10.%d.%d.%d:31000", i>>16, i>>8&255, i&255),
		})
	}
	r.Sort("edge")
	b, err := json.Marshal(r)
	if err != nil || r.Beyond == 0 {
		t.Fatalf("%d have no room, %v", r.Beyond, err)
	}
	small, err := packed(b)
	if err != nil || len(small)*4/3 > wire.MaxMessageBytes-4096 { // base64
		t.Errorf("packed it has %d bytes, %v", len(small), err)
	}
}
