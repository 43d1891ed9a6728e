package gateway

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	// Both versions of the header, and what balancers make of them, are read and
	// written by it without mistakes.
	"github.com/pires/go-proxyproto"

	"github.com/verge-edge/verge/internal/proxy/netconn"
)

// Bounds of the header of the PROXY protocol that a balancer in front sends.
const (
	// proxyTimeout is how long it may take.
	proxyTimeout = 5 * time.Second
	// maxProxyV1 is the longest line of version 1, by its specification.
	maxProxyV1 = 107
	// maxProxyV2 bounds what follows the first 16 bytes of version 2: addresses need 36,
	// the rest are further fields, which are not looked at.
	maxProxyV2 = 4 << 10
)

// ProxySignature with which version 2 begins; version 1 has at least 15 bytes.
const ProxySignature = "\r\n\r\n\x00\r\nQUIT\n"

// origin is who a connection of a gateway is from.
type origin struct {
	// client is the client's own address, here the one that it asked for: that of the
	// connection, or what the balancer in front says.
	client, here net.Addr
}

// trusts says whether a connection is from a balancer in front.
func (g *Gateway) trusts(remote net.Addr) bool {
	tcp, is := remote.(*net.TCPAddr)
	if !is || len(g.opts.ProxyFrom) == 0 {
		return false
	}
	a := tcp.AddrPort().Addr().Unmap()
	for _, p := range g.opts.ProxyFrom {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// visit finds out who a connection is from; where it is from a balancer that takes until
// its header has come. Exactly the header is read. The connection is cut when ctx ends.
func (g *Gateway) visit(ctx context.Context, c net.Conn) (origin, error) {
	v := origin{client: c.RemoteAddr(), here: c.LocalAddr()}
	if !g.trusts(v.client) {
		return v, nil
	}
	defer context.AfterFunc(ctx, func() { netconn.Cut(c) })()
	if err := c.SetReadDeadline(time.Now().Add(proxyTimeout)); err != nil {
		return v, fmt.Errorf("header of the PROXY protocol: %w", err)
	}
	head, err := readProxyHead(c)
	if err != nil {
		return v, err
	}
	client, here, err := parseProxyHead(head)
	if err != nil {
		return v, err
	}
	if client != nil {
		v.client, v.here = client, here
	}
	return v, c.SetReadDeadline(time.Time{})
}

var errProxyHead = errors.New("not the header of the PROXY protocol, version 1 or 2")

// readProxyHead reads one header and no byte more: what follows belongs to others, who
// may read from the socket itself.
func readProxyHead(r io.Reader) ([]byte, error) {
	head := make([]byte, len(ProxySignature), maxProxyV1)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, fmt.Errorf("header of the PROXY protocol: %w", err)
	}
	if string(head) == ProxySignature {
		head = head[:16]
		if _, err := io.ReadFull(r, head[len(ProxySignature):]); err != nil {
			return nil, fmt.Errorf("header of the PROXY protocol: %w", err)
		}
		n := int(binary.BigEndian.Uint16(head[14:]))
		if n > maxProxyV2 {
			return nil, fmt.Errorf("%w: %d bytes, at most %d are read", errProxyHead, n, maxProxyV2)
		}
		head = append(head, make([]byte, n)...)
		if _, err := io.ReadFull(r, head[16:]); err != nil {
			return nil, fmt.Errorf("header of the PROXY protocol: %w", err)
		}
		return head, nil
	}
	if !bytes.HasPrefix(head, []byte("PROXY ")) {
		return nil, errProxyHead
	}
	for head[len(head)-1] != '\n' {
		if len(head) == maxProxyV1 {
			return nil, fmt.Errorf("%w: a line of more than %d bytes", errProxyHead, maxProxyV1)
		}
		n := len(head)
		head = head[:n+1]
		if _, err := io.ReadFull(r, head[n:]); err != nil {
			return nil, fmt.Errorf("header of the PROXY protocol: %w", err)
		}
	}
	return head, nil
}

// parseProxyHead returns the addresses that a header tells; nil where the connection is
// the balancer's own, or it does not know.
func parseProxyHead(head []byte) (client, here net.Addr, err error) {
	r := bufio.NewReaderSize(bytes.NewReader(head), len(head)+1)
	h, err := proxyproto.Read(r)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errProxyHead, err)
	}
	if h.Command.IsLocal() || h.TransportProtocol.IsUnspec() {
		return nil, nil, nil
	}
	from, to, ok := h.TCPAddrs()
	if !ok || !told(from) || !told(to) {
		return nil, nil, fmt.Errorf("%w: it has no addresses of a connection by TCP", errProxyHead)
	}
	return from, to, nil
}

func told(a *net.TCPAddr) bool { return a != nil && a.AddrPort().Addr().IsValid() }

// admit finds out who a connection is from and counts it, or cuts it where that client
// or all together have too many. release is to be called once.
func (g *Gateway) admit(ctx context.Context, c net.Conn) (v origin, release func(), ok bool) {
	if !g.Conns.Take() {
		g.rejected.Add(1)
		netconn.Cut(c)
		return v, nil, false
	}
	v, err := g.visit(ctx, c)
	if err != nil {
		g.Conns.Give()
		g.badProxy.Add(1)
		g.opts.Log.Debug("a balancer's connection is refused", "from", c.RemoteAddr().String(), "why", err)
		netconn.Cut(c)
		return v, nil, false
	}
	give, ok := g.clients.take(v.client)
	if !ok {
		g.Conns.Give()
		g.rejected.Add(1)
		netconn.Cut(c)
		return v, nil, false
	}
	return v, func() {
		give()
		g.Conns.Give()
	}, true
}
