package relay

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/blake2s"

	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/wire"
)

type realm struct {
	*testing.T
	root    *pki.Authority
	cluster *pki.ClusterAuthority
	srv     *Server
}

func newRealm(t *testing.T, change func(*Options)) *realm {
	t.Helper()
	r := &realm{T: t}
	var err error
	if r.root, err = pki.OpenAuthority(t.TempDir(), time.Now()); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	pub, err := pki.EnsureClusterKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	chain, err := r.root.SignCluster(pub, "edge", time.Now())
	if err == nil {
		err = pki.SaveCluster(dir, chain, r.root.PEM())
	}
	if err == nil {
		r.cluster, err = pki.OpenClusterAuthority(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	id := r.identity(pki.Subject{Role: pki.RoleRoot})
	o := Options{
		Listen: "127.0.0.1:0", Name: "root", KeyFile: filepath.Join(t.TempDir(), "key"), TLS: conf(id),
		Worker: func(cs tls.ConnectionState, l wire.SignedLease) (wire.Lease, error) {
			return id.VerifyLease(cs.PeerCertificates, l)
		},
	}
	if change != nil {
		change(&o)
	}
	if r.srv, err = Start(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.srv.Close)
	return r
}

func conf(id *pki.Identity) func() (*tls.Config, error) {
	return func() (*tls.Config, error) { return id.ServerTLS(tls.RequireAndVerifyClientCert), nil }
}

func (r *realm) identity(s pki.Subject) *pki.Identity {
	r.Helper()
	dir := r.TempDir()
	pub, err := pki.EnsureKey(dir)
	if err != nil {
		r.Fatal(err)
	}
	req := pki.LeafRequest{Subject: s, PublicKey: pub}
	if s.Role == pki.RoleWorker {
		req.DNSNames = []string{pki.WorkerName(s.Cluster, "away-"+s.Name)} // for other clusters
	}
	var chain string
	if s.Role == pki.RoleRoot {
		chain, err = r.root.Issue(req, time.Now())
	} else {
		chain, err = r.cluster.Issue(req, time.Now())
	}
	if err == nil {
		err = pki.SaveIdentity(dir, chain, r.root.PEM())
	}
	if err != nil {
		r.Fatal(err)
	}
	id, err := pki.LoadIdentity(dir)
	if err != nil {
		r.Fatal(err)
	}
	return id
}

// worker is a client of the relay with a number.
func (r *realm) worker(n uint32) *Client {
	r.Helper()
	name := fmt.Sprintf("w%d", n)
	l, err := r.cluster.SignLease(wire.Lease{V: 1, Cluster: "edge", Worker: name,
		Prefix: netip.MustParsePrefix("fd00:1:2::/48"), Number: n})
	if err != nil {
		r.Fatal(err)
	}
	k, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		r.Fatal(err)
	}
	return &Client{
		Relay: r.srv.Describe([]string{"127.0.0.1"}), ServerName: pki.RootName,
		TLS:   conf(r.identity(pki.Subject{Role: pki.RoleWorker, Cluster: "edge", Name: name})),
		Lease: l, Key: keyText([32]byte(k.PublicKey().Bytes())),
		Inner: netip.MustParseAddr(fmt.Sprintf("fd00:1:2:0:%x::1", n)),
	}
}

func (r *realm) known(ws ...*Client) {
	r.Helper()
	for _, w := range ws {
		if _, _, err := w.Mail(r.Context()); err != nil {
			r.Fatal(err)
		}
	}
}

func TestPipeJoinsTwoWorkers(t *testing.T) {
	r := newRealm(t, nil)
	a, b := r.worker(1), r.worker(2)
	r.known(a, b)
	got := make(chan error, 1)
	go func() {
		conn, err := a.Pipe(t.Context(), To{Cluster: "edge", Worker: "away-w2"})
		if err == nil {
			defer func() { _ = conn.Close() }()
			if _, err = conn.Write([]byte("hello")); err == nil {
				_, err = io.ReadFull(conn, make([]byte, 2))
			}
		}
		got <- err
	}()
	var m Mail
	for m.Pipe == "" {
		ans, _, err := b.Mail(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(ans.Mail) > 0 {
			m = ans.Mail[0]
		}
	}
	if m.Worker != "w1" || m.Key != a.Key {
		t.Errorf("mail %+v", m)
	}
	if _, err := a.Take(t.Context(), m.Pipe); !errors.Is(err, ErrRefused) {
		t.Errorf("another worker takes the pipe: %v", err)
	}
	conn, err := b.Take(t.Context(), m.Pipe)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	buf := make([]byte, 5)
	if _, err := io.ReadFull(conn, buf); err != nil || string(buf) != "hello" {
		t.Fatalf("%q, %v", buf, err)
	}
	if _, err := conn.Write([]byte("ok")); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	if _, err := b.Take(t.Context(), m.Pipe); !errors.Is(err, ErrRefused) {
		t.Errorf("a pipe is taken twice: %v", err)
	}
}

func TestStrangersAreRefused(t *testing.T) {
	r := newRealm(t, nil)
	a, b := r.worker(1), r.worker(2)
	r.known(a)
	for what, change := range map[string]func(c *Client){
		"another one's lease": func(c *Client) { c.Lease = a.Lease },
		"a changed lease": func(c *Client) {
			c.Lease.Body = []byte(strings.Replace(string(c.Lease.Body), `"number":2`, `"number":3`, 1))
		},
		"a foreign address": func(c *Client) { c.Inner = a.Inner },
		"another one's key": func(c *Client) { c.Key = a.Key },
		"no key":            func(c *Client) { c.Key = "x" },
		"an authority's rights": func(c *Client) {
			c.TLS = conf(r.identity(pki.Subject{Role: pki.RoleCluster, Cluster: "edge"}))
		},
	} {
		c := *b
		change(&c)
		if _, _, err := c.Mail(t.Context()); err == nil {
			t.Errorf("%s is accepted", what)
		}
	}
	if s := r.srv.Stats(); s.Workers != 1 || s.Refused != 6 {
		t.Errorf("%+v", s)
	}
	if _, err := a.Channel(t.Context(), To{Cluster: "edge", Worker: "w2"}); !errors.Is(err, ErrRefused) {
		t.Errorf("a way to who is not here: %v", err)
	}
	other := newRealm(t, nil)
	b.Relay = other.srv.Describe([]string{"127.0.0.1"})
	if _, _, err := b.Mail(t.Context()); err == nil {
		t.Error("a worker of another root is served")
	}
}

// sender is a worker's end of a channel.
type sender struct {
	*testing.T
	conn *net.UDPConn
	to   [32]byte // whose handshakes it makes
}

func (r *realm) sender(c *Client, other *Client) *sender {
	r.Helper()
	at, err := c.Channel(r.Context(), To{Cluster: "edge", Worker: "w" + other.Inner.String()[len("fd00:1:2:0:"):][:1]})
	if err != nil {
		r.Fatal(err)
	}
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(at))
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = conn.Close() })
	k, err := parseKey(other.Key)
	if err != nil {
		r.Fatal(err)
	}
	return &sender{r.T, conn, k}
}

func (s *sender) handshake(mark byte) []byte {
	return s.proven(msgInitiation, initiationSize, initiationMAC, mark)
}

func (s *sender) proven(kind byte, size, mac int, mark byte) []byte {
	p := make([]byte, size)
	p[0], p[4] = kind, mark
	key := blake2s.Sum256(append([]byte("mac1----"), s.to[:]...))
	h, err := blake2s.New128(key[:])
	if err != nil {
		s.Fatal(err)
	}
	_, _ = h.Write(p[:mac])
	copy(p[mac:], h.Sum(nil))
	return p
}

// holds sends a handshake that waits for the other side.
func (r *realm) holds(s *sender, mark byte) {
	r.Helper()
	before := r.srv.Stats().Dropped
	s.send(s.handshake(mark))
	for r.srv.Stats().Dropped == before {
		if r.Context().Err() != nil {
			r.Fatal("it is not held")
		}
	}
}

// meet makes both sides known.
func (r *realm) meet(a, b *sender) {
	r.Helper()
	r.holds(a, 1)
	b.send(b.handshake(2))
	a.receive()
}

func (s *sender) send(p []byte) {
	s.Helper()
	if _, err := s.conn.Write(p); err != nil {
		s.Fatal(err)
	}
}

func (s *sender) receive() []byte {
	s.Helper()
	_ = s.conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	p := make([]byte, maxPacket)
	n, err := s.conn.Read(p)
	if err != nil {
		s.Fatal(err)
	}
	return p[:n]
}

func data(mark byte) []byte {
	p := make([]byte, dataMin)
	p[0], p[4] = msgData, mark
	return p
}

// A first handshake waits until it is known where it has to go. Where that is known by another
// handshake, only this one goes on: two that cross would end each other.
func TestAFirstHandshakeWaits(t *testing.T) {
	r := newRealm(t, nil)
	wa, wb, wc := r.worker(1), r.worker(2), r.worker(3)
	r.known(wa, wb, wc)
	a, b := r.sender(wa, wb), r.sender(wb, wa)
	r.holds(a, 1)
	b.send(b.proven(msgResponse, responseSize, responseMAC, 2))
	if p := b.receive(); p[0] != msgInitiation || p[4] != 1 {
		t.Fatalf("the first handshake did not wait: %x", p[:8])
	}
	a, c := r.sender(wa, wc), r.sender(wc, wa)
	r.holds(a, 3)
	c.send(c.handshake(4))
	if p := a.receive(); p[0] != msgInitiation || p[4] != 4 {
		t.Fatalf("the second handshake did not arrive: %x", p[:8])
	}
	a.send(data(5))
	if p := c.receive(); p[4] != 5 {
		t.Fatalf("the handshakes cross: %x", p[:8])
	}
}

// Only WireGuard's packets between both pass.
func TestChannelForwardsBetweenItsTwoWorkersAlone(t *testing.T) {
	r := newRealm(t, nil)
	wa, wb := r.worker(1), r.worker(2)
	r.known(wa, wb)
	a, b := r.sender(wa, wb), r.sender(wb, wa)
	r.holds(a, 1)
	b.send([]byte("anything"))
	forged := b.handshake(2)
	forged[50]++
	b.send(forged)
	b.send(data(3)) // from where nobody is known
	b.send(b.handshake(4))
	if p := a.receive(); p[4] != 4 {
		t.Fatalf("what is no proof passes: %x", p[:8])
	}
	stranger := &sender{t, nil, a.to}
	conn, err := net.DialUDP("udp", nil, a.conn.RemoteAddr().(*net.UDPAddr))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	stranger.conn = conn
	stranger.send(data(9))
	a.send(data(5))
	if p := b.receive(); p[4] != 5 {
		t.Fatalf("a stranger's packet passes: %x", p[:8])
	}
	if err := wa.Pause(t.Context(), To{Cluster: "edge", Worker: "w2"}); err != nil {
		t.Fatal(err)
	}
	a.send(data(6))
	for r.srv.Stats().Dropped < 6 {
		if t.Context().Err() != nil {
			t.Fatal("not dropped")
		}
	}
	if _, err := wb.Channel(t.Context(), To{Cluster: "edge", Worker: "w1"}); err != nil {
		t.Fatal(err)
	}
	a.send(data(7))
	if p := b.receive(); p[4] != 7 {
		t.Fatalf("a paused way carries: %x", p[:8])
	}
	for r.srv.Stats().Packets < 3 { // one is counted when it has left
		if t.Context().Err() != nil {
			t.Fatalf("not counted: %+v", r.srv.Stats())
		}
	}
	if s := r.srv.Stats(); s.Channels != 1 {
		t.Errorf("%+v", s)
	}
}

func TestRateIsBound(t *testing.T) {
	r := newRealm(t, func(o *Options) { o.Rate = 8 })
	wa, wb := r.worker(1), r.worker(2)
	r.known(wa, wb)
	a, b := r.sender(wa, wb), r.sender(wb, wa)
	r.meet(a, b)
	big := make([]byte, 1400)
	big[0] = msgData
	for range 200 {
		a.send(big)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for r.srv.Stats().Dropped == 0 && ctx.Err() == nil {
		a.send(big)
	}
	if s := r.srv.Stats(); s.Dropped == 0 || s.Bytes > 70_000 {
		t.Errorf("%+v", s)
	}
}

func TestWhatNobodyUsesIsForgotten(t *testing.T) {
	r := newRealm(t, nil)
	wa, wb := r.worker(1), r.worker(2)
	r.known(wa, wb)
	if _, err := wa.Channel(t.Context(), To{Cluster: "edge", Worker: "w2"}); err != nil {
		t.Fatal(err)
	}
	r.srv.forget(time.Now().Add(forgetAfter / 2))
	if s := r.srv.Stats(); s.Workers != 2 || s.Channels != 1 {
		t.Fatalf("%+v", s)
	}
	r.srv.forget(time.Now().Add(2 * forgetAfter))
	if s := r.srv.Stats(); s.Workers != 0 || s.Channels != 0 {
		t.Fatalf("%+v", s)
	}
}

func TestKeySurvivesARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	a, err := ensureKey(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := ensureKey(path)
	if err != nil || !a.Equal(b) {
		t.Fatalf("another key: %v", err)
	}
}

// Who is revoked is out at once, with what goes through the relay; others stay.
func TestWhoIsRevokedIsDropped(t *testing.T) {
	var gone atomic.Bool
	r := newRealm(t, func(o *Options) {
		o.Refused = func(chain []*x509.Certificate) error {
			if gone.Load() && slices.Contains(chain[0].DNSNames, pki.WorkerName("edge", "w1")) {
				return pki.ErrRevoked
			}
			return nil
		}
	})
	wa, wb, wc := r.worker(1), r.worker(2), r.worker(3)
	r.known(wa, wb, wc)
	a, b := r.sender(wa, wb), r.sender(wb, wa)
	r.meet(a, b)
	if _, err := wc.Channel(t.Context(), To{Cluster: "edge", Worker: "w2"}); err != nil {
		t.Fatal(err)
	}
	r.srv.PeersChanged()
	if s := r.srv.Stats(); s.Workers != 3 || s.Channels != 2 {
		t.Fatalf("nobody was revoked: %+v", s)
	}
	gone.Store(true)
	r.srv.PeersChanged()
	if s := r.srv.Stats(); s.Workers != 2 || s.Channels != 1 {
		t.Errorf("who is revoked is still there: %+v", s)
	}
	if _, _, err := wa.Mail(t.Context()); !errors.Is(err, ErrRefused) {
		t.Errorf("it asks for its mail: %v", err)
	}
	if _, err := wb.Channel(t.Context(), To{Cluster: "edge", Worker: "w1"}); !errors.Is(err, ErrRefused) {
		t.Errorf("somebody asks for a way to it: %v", err)
	}
	if _, err := wb.Channel(t.Context(), To{Cluster: "edge", Worker: "w3"}); err != nil {
		t.Errorf("others: %v", err)
	}
}

// A worker is found by the number of its lease under whatever name, in its cluster
// alone, and may come under another one than before.
func TestWorkersAreFoundByNumber(t *testing.T) {
	r := newRealm(t, nil)
	wa, wb := r.worker(1), r.worker(2)
	r.known(wa, wb)
	if _, err := wa.Channel(t.Context(), To{Cluster: "edge", Worker: "its-own-name", Number: 2}); err != nil {
		t.Error(err)
	}
	for _, to := range []To{{Cluster: "edge", Worker: "x"}, {Cluster: "edge", Worker: "x", Number: 3},
		{Cluster: "fog", Worker: "x", Number: 2}} {
		if _, err := wa.Channel(t.Context(), to); !errors.Is(err, ErrRefused) {
			t.Errorf("%+v: %v", to, err)
		}
	}
	a, _, err := wb.Mail(t.Context())
	if err != nil || len(a.Mail) != 1 || a.Mail[0].Number != 1 {
		t.Errorf("%+v, %v", a.Mail, err)
	}
	// The same worker under its other name: another certificate and lease, its number
	// and its key.
	l, err := r.cluster.SignLease(wire.Lease{V: 1, Cluster: "edge", Worker: "w-ab12",
		Prefix: netip.MustParsePrefix("fd00:1:2::/48"), Number: 2})
	if err != nil {
		t.Fatal(err)
	}
	other := *wb
	other.Lease, other.TLS = l, conf(r.identity(pki.Subject{Role: pki.RoleWorker, Cluster: "edge", Name: "w-ab12"}))
	r.known(&other)
	if s := r.srv.Stats(); s.Workers != 2 || s.Channels != 0 {
		t.Errorf("%+v", s)
	}
	if _, err := wa.Channel(t.Context(), To{Cluster: "edge", Worker: "w2", Number: 2}); err != nil {
		t.Error(err)
	}
}
