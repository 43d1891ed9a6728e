package wire

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func manyEndpoints(n int) (list []Endpoint) {
	for i := range n {
		list = append(list, Endpoint{
			Instance: fmt.Sprintf("app.web.%d", i), Cluster: []string{"edge", "fog"}[i%2], Worker: fmt.Sprintf("worker-%d", i%1000),
			Address: fmt.Sprintf("10.1.%d.%d:8474", i%1000/256, i%256), CPU: 4000, Suspect: i%10 == 0,
			Addrs: []netip.Addr{netip.AddrFrom4([4]byte{10, 3, byte(i >> 8), byte(i)}), netip.MustParseAddr(fmt.Sprintf("fd01:203:405:%x::%x", i%1000, i))},
		})
	}
	return list
}

// A route has room for thousands of endpoints, takes no more than its bound in any form,
// and leaves out those first that are of the least use. It fits into a message, packed.
func TestRoutesAreBounded(t *testing.T) {
	small := Route{V: Version, Endpoints: manyEndpoints(5000)}
	if small.Sort("edge"); small.Beyond != 0 || len(small.Endpoints) != 5000 {
		t.Fatalf("of 5000 instances %d have no room", small.Beyond)
	}
	large := Route{V: Version, App: "app", Service: "web", Endpoints: manyEndpoints(20_000)}
	large.Sort("edge")
	if large.Beyond+len(large.Endpoints) != 20_000 || large.Beyond == 0 {
		t.Fatalf("%d have room, %d do not", len(large.Endpoints), large.Beyond)
	}
	edge, fog := 0, 0
	for _, e := range large.Endpoints {
		if e.Suspect {
			t.Fatalf("%s is suspect, and %d that are not have no room", e.Instance, large.Beyond)
		}
		if e.Cluster == "edge" {
			edge++
		} else {
			fog++
		}
	}
	if edge != 8000 && fog > 0 {
		t.Errorf("%d of edge have room, want all 8000 that answer before the %d of fog", edge, fog)
	}
	if !slices.IsSortedFunc(large.Endpoints, func(a, b Endpoint) int { return strings.Compare(a.Instance, b.Instance) }) {
		t.Error("they are not in order")
	}
	b, err := json.Marshal(large)
	if err != nil || len(b) > MaxRouteBytes+4096 {
		t.Fatalf("it has %d bytes, %v", len(b), err)
	}
	again := Route{Endpoints: slices.Clone(large.Endpoints)}
	if again.Sort("edge"); again.Beyond != 0 || len(again.Endpoints) != len(large.Endpoints) {
		t.Errorf("sorted again %d have no room", again.Beyond)
	}
	// No endpoint takes more than it is counted for, whatever is in it.
	odd := Endpoint{
		Instance: strings.Repeat("a", 136), Cluster: strings.Repeat("b", 63), Worker: strings.Repeat("c", 63), Address: strings.Repeat("d", 260), Relay: strings.Repeat("e", 63),
		Addrs: []netip.Addr{netip.MustParseAddr("1111:1111:1111:1111:1111:1111:1111:1111"), netip.MustParseAddr("111.111.111.111")},
		CPU:   1<<63 - 1, Serves: -1.7976931348623157e+308, ServesBy: strings.Repeat("\x01", 40), Suspect: true, Asleep: true, StartUp: 1<<63 - 1,
	}
	if b, err := json.Marshal(odd); err != nil || len(b) > odd.bytes() {
		t.Errorf("%d bytes are counted as %d, %v", len(b), odd.bytes(), err)
	}
}
