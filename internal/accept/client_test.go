package accept

import (
	"net/netip"
	"testing"
)

func TestClient(t *testing.T) {
	for in, want := range map[string]string{
		"192.0.2.7": "192.0.2.7", "::ffff:192.0.2.7": "192.0.2.7", "2001:db8:1:2:3:4:5:6": "2001:db8:1:2::",
		"fe80::1%eth0": "fe80::",
	} {
		if got := Client(netip.MustParseAddr(in)); got.String() != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
	for in, want := range map[string]string{
		"192.0.2.7:80": "192.0.2.7", "[2001:db8::1%eth0]:1": "2001:db8::", "2001:db8::2": "2001:db8::",
		"nonsense": "invalid IP", "": "invalid IP",
	} {
		if got := Source(in); got.String() != want {
			t.Errorf("source %q: %s, want %s", in, got, want)
		}
	}
}
