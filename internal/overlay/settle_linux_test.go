package overlay

import (
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
)

// Where somebody else has a port that is needed, the network is set up when that is gone:
// what an earlier try has opened is in nobody's way.
func TestAPortThatWasTaken(t *testing.T) {
	w := newWorld(t)
	w.set()
	taken, err := net.ListenPacket("udp4", "0.0.0.0:53")
	if err != nil {
		t.Fatal(err)
	}
	web := Instance{ID: "shop.web.0", App: "shop", Namespace: "default", AppNumber: 1}
	for range 2 {
		if _, err := w.n.Attach(web); !errors.Is(err, syscall.EADDRINUSE) ||
			!strings.Contains(err.Error(), "10.128.7.") {
			t.Fatalf("while the port is taken: %v", err)
		}
	}
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	w.attach(web.ID, web.AppNumber)
	r := routeTo("shop", 1, "web", web.ID)
	w.set(r)
	w.addr6(web.ID, "web")
}
