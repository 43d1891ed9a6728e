package gateway

import (
	"bytes"
	"net"
	"strings"
	"testing"
)

// badProxyHeads are refused.
var badProxyHeads = map[string]string{
	"nothing of it":       "GET / HTTP/1.1\r\nHost: a.b\r\n\r\n",
	"lower case":          "proxy TCP4 1.2.3.4 1.2.3.4 1 2\r\n",
	"no line":             "PROXY TCP4 1.2.3.4 1.2.3.4 1 2",
	"bare line feed":      "PROXY TCP4 1.2.3.4 1.2.3.4 1 2\n",
	"endless":             "PROXY UNKNOWN " + strings.Repeat("a", 200) + "\r\n",
	"other family":        "PROXY TCP4 ::1 ::1 1 2\r\n",
	"no address":          "PROXY TCP4 1.2.3 1.2.3.4 1 2\r\n",
	"a name":              "PROXY TCP4 localhost 1.2.3.4 1 2\r\n",
	"a port too large":    "PROXY TCP4 1.2.3.4 1.2.3.4 1 65536\r\n",
	"a port below zero":   "PROXY TCP4 1.2.3.4 1.2.3.4 -1 2\r\n",
	"too few":             "PROXY TCP4 1.2.3.4 1.2.3.4 1\r\n",
	"too many":            "PROXY TCP4 1.2.3.4 1.2.3.4 1 2 3\r\n",
	"udp in version 1":    "PROXY UDP4 1.2.3.4 1.2.3.4 1 2\r\n",
	"version 3":           ProxySignature + "\x31\x11\x00\x0c" + strings.Repeat("\x01", 12),
	"unknown command":     ProxySignature + "\x22\x11\x00\x0c" + strings.Repeat("\x01", 12),
	"unknown family":      ProxySignature + "\x21\x41\x00\x0c" + strings.Repeat("\x01", 12),
	"udp in version 2":    ProxySignature + "\x21\x12\x00\x0c" + strings.Repeat("\x01", 12),
	"a path":              ProxySignature + "\x21\x31\x00\xd8" + strings.Repeat("a", 216),
	"addresses too short": ProxySignature + "\x21\x11\x00\x08" + strings.Repeat("\x01", 8),
	"IPv6 in 12 bytes":    ProxySignature + "\x21\x21\x00\x0c" + strings.Repeat("\x01", 12),
	"too long":            ProxySignature + "\x21\x11\xff\xff" + strings.Repeat("\x01", 65535),
	"cut off":             ProxySignature + "\x21\x11\x00\x0c" + "\x01\x01",
	"cut off early":       ProxySignature[:7],
}

func proxyHead(b []byte) (client net.Addr, rest []byte, err error) {
	r := bytes.NewReader(b)
	head, err := readProxyHead(r)
	if err != nil {
		return nil, nil, err
	}
	client, _, err = parseProxyHead(head)
	return client, b[len(b)-r.Len():], err
}

func TestBadProxyHeads(t *testing.T) {
	for name, head := range badProxyHeads {
		if client, _, err := proxyHead([]byte(head)); err == nil {
			t.Errorf("%s: taken, the client is %v", name, client)
		}
	}
}

// FuzzProxyHead: whatever comes, an address is told or an error, and not a byte of what
// follows is taken.
func FuzzProxyHead(f *testing.F) {
	for _, head := range badProxyHeads {
		f.Add([]byte(head))
	}
	f.Add([]byte("PROXY TCP4 192.0.2.9 198.51.100.1 40000 443\r\n"))
	f.Add([]byte(proxyV2(f, "[2001:db8::9]:1", "[2001:db8::1]:2")))
	f.Fuzz(func(t *testing.T, b []byte) {
		all := append(bytes.Clone(b), "rest"...)
		client, rest, err := proxyHead(all)
		if err != nil {
			return
		}
		n := len(all) - len(rest)
		if !bytes.Equal(rest, all[n:]) || n > 16+maxProxyV2 {
			t.Fatalf("%d bytes were read, the rest is %q", n, rest)
		}
		if tcp, ok := client.(*net.TCPAddr); client != nil && (!ok || !tcp.AddrPort().IsValid()) {
			t.Fatalf("the client is %v", client)
		}
	})
}
