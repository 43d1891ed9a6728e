package e2e

import (
	"net"
	"strings"
	"testing"
	"time"
)

// An instance that must be near a service is placed where that was measured, and
// explain says who was too far. One worker is 120 ms away from all others, since what is
// sent to its address takes so long.
func TestPlacedNearAService(t *testing.T) {
	w := newWorld(t, 1, "edge")
	data := freeAddr(t)
	w.addWorker("edge", "far", "--data", data, "--advertise", longLine(t, data, 60*time.Millisecond), "--label", "at=far", "--location", "48.14,11.58")
	w.allReady()
	w.root.apply(`application: near
services:
  api:
    command: [testprogram]
    scheduler: ldp
    latency: [{to: web, max: 50ms}]
  web:
    command: [testprogram]
    affinity: {labels: {at: far}}
  there:
    command: [testprogram]
    latency: [{to: "48.37,10.90", distance: 100km, max: 5ms}]
`)
	if own := ownAddress(); own != "" { // users who are on this machine are near all its workers
		w.root.apply(strings.ReplaceAll(`application: users
services:
  api:
    command: [testprogram]
    latency: [{to: OWN, max: 1s}]
`, "OWN", own))
		if said := w.root.ok("explain", "users.api.0"); !strings.Contains(said, "near "+own+" (1s)") {
			t.Error(said)
		}
	}
	for id, i := range w.root.instances("near") {
		if i.Worker != "far" {
			t.Errorf("%s is on %s", id, i.Worker)
		}
	}
	said := w.root.ok("explain", "near.api.0")
	for _, want := range []string{"near web (50ms)", "removed      1 by latency, for example edge-1: is not within 50ms of web: 12", "latency_ms 0"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is missing in\n%s", want, said)
		}
	}
}

// ownAddress is an address of this machine that is not the loopback's, "" if there is
// none.
func ownAddress() string {
	all, _ := net.InterfaceAddrs() // none is none
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() && !n.IP.IsLinkLocalUnicast() {
			return n.IP.String()
		}
	}
	return ""
}
