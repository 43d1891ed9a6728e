package relay

import (
	"bufio"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	// WireGuard's own implementation for user space: it needs no rights here.
	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/tun"

	"github.com/verge-edge/verge/internal/atomicfile"
)

// tunnel is the relay's WireGuard device. Workers are its peers; through it goes
// one message, towards them, and what they send into it is dropped.
type tunnel struct {
	dev    *device.Device
	tun    *source
	public [32]byte

	mu    sync.Mutex // guards below
	peers map[[32]byte]peer
	read  time.Time // when peers was
}

type peer struct {
	endpoint  netip.AddrPort
	handshake time.Time
}

func newTunnel(key *ecdh.PrivateKey, port *net.UDPConn, log *slog.Logger) (*tunnel, error) {
	t := &tunnel{tun: newSource(), public: [32]byte(key.PublicKey().Bytes())}
	t.dev = device.NewDevice(t.tun, &bind{conn: port}, &device.Logger{
		Verbosef: device.DiscardLogf,
		Errorf: func(format string, args ...any) {
			log.Debug("the relay's WireGuard", "what", fmt.Sprintf(format, args...))
		},
	})
	err := t.dev.IpcSet("private_key=" + hex.EncodeToString(key.Bytes()) + "\n")
	if err == nil {
		err = t.dev.Up()
	}
	if err != nil {
		t.dev.Close()
		return nil, errors.Join(fmt.Errorf("WireGuard: %w", err), port.Close())
	}
	return t, nil
}

func (t *tunnel) close() { t.dev.Close() }

func (t *tunnel) add(key [32]byte, inner netip.Addr) error {
	err := t.dev.IpcSet(fmt.Sprintf("public_key=%x\nreplace_allowed_ips=true\nallowed_ip=%s/128\n", key, inner))
	if err != nil {
		return fmt.Errorf("add the worker to WireGuard: %w", err)
	}
	return nil
}

func (t *tunnel) remove(key [32]byte) {
	_ = t.dev.IpcSet(fmt.Sprintf("public_key=%x\nremove=true\n", key))
}

// inner address of the relay for a worker: of a number that no worker has, of
// application 0, as all that nodes themselves send, and of the relay's key, so that
// those of two relays differ.
func (t *tunnel) inner(worker netip.Addr) netip.Addr {
	a := worker.As16()
	copy(a[6:], []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0})
	sum := sha256.Sum256(t.public[:])
	copy(a[13:], sum[:3])
	return netip.AddrFrom16(a)
}

// wake sends the message that there is mail.
func (t *tunnel) wake(worker netip.Addr) {
	t.tun.send(datagram(t.inner(worker), worker, WakePort, []byte(wakeText)))
}

// datagram is an IPv6 packet with UDP in it.
func datagram(from, to netip.Addr, port uint16, text []byte) []byte {
	const ip, udp = 40, 8
	src, dst := from.As16(), to.As16()
	p := make([]byte, ip+udp, ip+udp+len(text))
	p[0] = 6 << 4
	binary.BigEndian.PutUint16(p[4:], uint16(udp+len(text)))
	p[6], p[7] = 17, 64
	copy(p[8:], src[:])
	copy(p[24:], dst[:])
	u := p[ip:]
	binary.BigEndian.PutUint16(u, port)
	binary.BigEndian.PutUint16(u[2:], port)
	binary.BigEndian.PutUint16(u[4:], uint16(udp+len(text)))
	p = append(p, text...)
	// The checksum covers the addresses, the length and the protocol too.
	sum := uint32(udp+len(text)) + 17
	for i := 8; i < len(p); i += 2 {
		w := uint32(p[i]) << 8
		if i+1 < len(p) {
			w |= uint32(p[i+1])
		}
		sum += w
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	if sum = ^sum & 0xffff; sum == 0 {
		sum = 0xffff
	}
	binary.BigEndian.PutUint16(p[ip+6:], uint16(sum))
	return p
}

// tableAge is how old what is known of the peers may be: strangers must not make
// the relay read it for each of their packets.
const tableAge = 500 * time.Millisecond

func (t *tunnel) peer(key [32]byte) peer {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now(); now.Sub(t.read) > tableAge {
		text, err := t.dev.IpcGet()
		if err != nil {
			return peer{}
		}
		t.peers, t.read = parsePeers(text), now
	}
	return t.peers[key]
}

// outside is where a worker's WireGuard is seen; zero: not yet.
func (t *tunnel) outside(key [32]byte) netip.AddrPort { return t.peer(key).endpoint }

// handshake is when the last one with a worker was.
func (t *tunnel) handshake(key [32]byte) time.Time { return t.peer(key).handshake }

// parsePeers reads the answer to a get of WireGuard's configuration protocol.
func parsePeers(text string) map[[32]byte]peer {
	out := map[[32]byte]peer{}
	var key [32]byte
	sc := bufio.NewScanner(strings.NewReader(text))
	for sc.Scan() {
		name, value, _ := strings.Cut(sc.Text(), "=")
		p := out[key]
		switch name {
		case "public_key":
			b, err := hex.DecodeString(value)
			if err != nil || len(b) != len(key) {
				return out
			}
			key = [32]byte(b)
			p = out[key]
		case "endpoint":
			if ap, err := netip.ParseAddrPort(value); err == nil {
				p.endpoint = netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
			}
		case "last_handshake_time_sec":
			if n, err := strconv.ParseInt(value, 10, 64); err == nil && n > 0 {
				p.handshake = time.Unix(n, 0)
			}
		default:
			continue
		}
		out[key] = p
	}
	return out
}

// maxKeyFile bounds what is read of a key file.
const maxKeyFile = 256

// ensureKey reads the private key in a file, and makes it if there is none. It is
// kept, so that those who were told of the relay before it was restarted find it.
func ensureKey(path string) (*ecdh.PrivateKey, error) {
	data, err := atomicfile.ReadBounded(path, maxKeyFile)
	if errors.Is(err, os.ErrNotExist) {
		k, err := ecdh.X25519().GenerateKey(rand.Reader)
		if err == nil {
			err = atomicfile.Write(path, []byte(base64.StdEncoding.EncodeToString(k.Bytes())+"\n"), 0o600)
		}
		if err != nil {
			return nil, fmt.Errorf("make its WireGuard key: %w", err)
		}
		return k, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read its WireGuard key: %w", err)
	}
	if b, err := base64.StdEncoding.Strict().DecodeString(strings.TrimSpace(string(data))); err == nil {
		if k, err := ecdh.X25519().NewPrivateKey(b); err == nil {
			return k, nil
		}
	}
	return nil, fmt.Errorf("its WireGuard key in %s is damaged: move the file away, and a new one is made", path)
}

func keyText(k [32]byte) string { return base64.StdEncoding.EncodeToString(k[:]) }

func parseKey(s string) ([32]byte, error) {
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil || len(b) != 32 {
		return [32]byte{}, fmt.Errorf("%.60q is no WireGuard key", s)
	}
	return [32]byte(b), nil
}

// source is a TUN that nothing of the machine is behind: packets come from the
// relay. A hello of a worker is answered; what else arrives is dropped.
type source struct {
	packets chan []byte
	events  chan tun.Event
	done    chan struct{}
	once    sync.Once
}

var _ tun.Device = (*source)(nil)

func newSource() *source {
	return &source{packets: make(chan []byte, 64), events: make(chan tun.Event), done: make(chan struct{})}
}

// send queues a packet; where that is full it is dropped.
func (s *source) send(p []byte) {
	select {
	case s.packets <- p:
	default:
	}
}

// File implements tun.Device.
func (s *source) File() *os.File { return nil }

// Read implements tun.Device.
func (s *source) Read(bufs [][]byte, sizes []int, offset int) (int, error) {
	select {
	case p := <-s.packets:
		sizes[0] = copy(bufs[0][offset:], p)
		return 1, nil
	case <-s.done:
		return 0, os.ErrClosed
	}
}

// Write implements tun.Device.
func (s *source) Write(bufs [][]byte, offset int) (int, error) {
	for _, b := range bufs {
		if p := b[offset:]; len(p) == 48+len(helloText) && p[0]>>4 == 6 && p[6] == 17 && string(p[48:]) == helloText {
			from, to := netip.AddrFrom16([16]byte(p[8:24])), netip.AddrFrom16([16]byte(p[24:40]))
			s.send(datagram(to, from, WakePort, []byte(hereText)))
		}
	}
	return len(bufs), nil
}

// MTU implements tun.Device.
func (s *source) MTU() (int, error) { return 1280, nil }

// Name implements tun.Device.
func (s *source) Name() (string, error) { return "relay", nil }

// Events implements tun.Device.
func (s *source) Events() <-chan tun.Event { return s.events }

// BatchSize implements tun.Device.
func (s *source) BatchSize() int { return 1 }

// Close implements tun.Device.
func (s *source) Close() error {
	s.once.Do(func() { close(s.done); close(s.events) })
	return nil
}

// bind is one UDP socket, a packet at a time: what a relay's tunnel carries is
// keepalives and handshakes, and the usual bind holds 17 MB for batches.
type bind struct {
	conn *net.UDPConn
	open bool
}

var _ conn.Bind = (*bind)(nil)

// Open implements conn.Bind.
func (b *bind) Open(uint16) ([]conn.ReceiveFunc, uint16, error) {
	if b.open {
		return nil, 0, conn.ErrBindAlreadyOpen
	}
	b.open = true
	port := uint16(b.conn.LocalAddr().(*net.UDPAddr).Port)
	return []conn.ReceiveFunc{func(bufs [][]byte, sizes []int, eps []conn.Endpoint) (int, error) {
		n, from, err := b.conn.ReadFromUDPAddrPort(bufs[0])
		if err != nil {
			return 0, err
		}
		sizes[0], eps[0] = n, &endpoint{netip.AddrPortFrom(from.Addr().Unmap(), from.Port())}
		return 1, nil
	}}, port, nil
}

// Close implements conn.Bind. The device closes its bind before it opens it for
// the first time.
func (b *bind) Close() error {
	if !b.open {
		return nil
	}
	b.open = false
	return b.conn.Close()
}

// SetMark implements conn.Bind.
func (b *bind) SetMark(uint32) error { return nil }

// Send implements conn.Bind.
func (b *bind) Send(bufs [][]byte, ep conn.Endpoint) error {
	for _, p := range bufs {
		if _, err := b.conn.WriteToUDPAddrPort(p, ep.(*endpoint).AddrPort); err != nil {
			return err
		}
	}
	return nil
}

// ParseEndpoint implements conn.Bind.
func (b *bind) ParseEndpoint(s string) (conn.Endpoint, error) {
	ap, err := netip.ParseAddrPort(s)
	return &endpoint{ap}, err
}

// BatchSize implements conn.Bind.
func (b *bind) BatchSize() int { return 1 }

type endpoint struct{ netip.AddrPort }

// ClearSrc implements conn.Endpoint.
func (e *endpoint) ClearSrc() {}

// SrcToString implements conn.Endpoint.
func (e *endpoint) SrcToString() string { return "" }

// DstToString implements conn.Endpoint.
func (e *endpoint) DstToString() string { return e.String() }

// DstToBytes implements conn.Endpoint.
func (e *endpoint) DstToBytes() []byte {
	b, _ := e.MarshalBinary()
	return b
}

// DstIP implements conn.Endpoint.
func (e *endpoint) DstIP() netip.Addr { return e.Addr() }

// SrcIP implements conn.Endpoint.
func (e *endpoint) SrcIP() netip.Addr { return netip.Addr{} }
