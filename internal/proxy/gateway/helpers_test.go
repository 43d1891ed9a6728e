package gateway

import (
	"net"
	"net/netip"
	"testing"

	"github.com/pires/go-proxyproto"
)

func proxyV2(t testing.TB, from, to string) string {
	t.Helper()
	b, err := proxyproto.HeaderProxyFromAddrs(2, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(from)),
		net.TCPAddrFromAddrPort(netip.MustParseAddrPort(to))).Format()
	must(t, err)
	return string(b)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
