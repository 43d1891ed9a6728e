package wg

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	// WireGuard's own implementation for user space.
	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/tun"
)

// user is WireGuard in this process.
type user struct{ dev *device.Device }

func openUser(o Options) (*user, error) {
	t, err := tun.CreateTUN(o.Name, o.MTU)
	if err != nil {
		return nil, notPossible(fmt.Errorf("make a TUN: %w", err))
	}
	out, in := newPace(), newPace()
	log := o.Log
	dev := device.NewDevice(newSlimTUN(t, out, in), newSlimBind(conn.NewStdNetBind(), out, in), &device.Logger{
		Verbosef: device.DiscardLogf,
		Errorf: func(format string, args ...any) {
			// It reports every packet that cannot be sent: an unreachable peer is the
			// business of who chose its endpoint.
			log.Debug("WireGuard", "what", fmt.Sprintf(format, args...))
		},
	})
	err = dev.IpcSet(fmt.Sprintf("private_key=%s\nlisten_port=%d\n", hex.EncodeToString(o.Key.key.Bytes()), o.Port))
	if err == nil {
		err = dev.Up()
	}
	if err != nil {
		dev.Close()
		return nil, fmt.Errorf("listen on UDP port %d: %w", o.Port, err)
	}
	return &user{dev}, nil
}

func (u *user) set(p Peer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "public_key=%s\n", p.Key.hex())
	if p.Endpoint.IsValid() {
		fmt.Fprintf(&b, "endpoint=%s\n", p.Endpoint)
	}
	if p.Keepalive != 0 {
		fmt.Fprintf(&b, "persistent_keepalive_interval=%d\n", seconds(p.Keepalive))
	}
	if p.Allowed != nil {
		b.WriteString("replace_allowed_ips=true\n")
		for _, a := range p.Allowed {
			fmt.Fprintf(&b, "allowed_ip=%s\n", a)
		}
	}
	return u.dev.IpcSet(b.String())
}

func (u *user) remove(k Key) error {
	return u.dev.IpcSet(fmt.Sprintf("public_key=%s\nremove=true\n", k.hex()))
}

func (u *user) nudge(k Key, after time.Duration) error {
	for _, t := range []time.Duration{0, max(after, time.Second), after} {
		if err := u.dev.IpcSet(fmt.Sprintf("public_key=%s\nupdate_only=true\npersistent_keepalive_interval=%d\n",
			k.hex(), seconds(t))); err != nil {
			return err
		}
	}
	return nil
}

func (u *user) peers() (map[Key]Status, error) {
	text, err := u.dev.IpcGet()
	if err != nil {
		return nil, err
	}
	return parseStatus(text)
}

// parseStatus reads the answer to a get of WireGuard's configuration protocol.
func parseStatus(text string) (map[Key]Status, error) {
	out := map[Key]Status{}
	var s *Status
	keep := func() {
		if s != nil {
			out[s.Key] = *s
		}
	}
	sc := bufio.NewScanner(strings.NewReader(text))
	for sc.Scan() {
		name, value, _ := strings.Cut(sc.Text(), "=")
		if name == "public_key" {
			keep()
			b, err := hex.DecodeString(value)
			if err != nil || len(b) != len(Key{}) {
				return nil, errors.New("the device names a peer that has no key")
			}
			s = &Status{Key: Key(b)}
			continue
		}
		if s == nil {
			continue
		}
		n, _ := strconv.ParseUint(value, 10, 64)
		switch name {
		case "endpoint":
			if ap, err := netip.ParseAddrPort(value); err == nil {
				s.Endpoint = netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
			}
		case "last_handshake_time_sec":
			if n > 0 {
				s.Handshake = time.Unix(int64(n), 0)
			}
		case "rx_bytes":
			s.Rx = n
		case "tx_bytes":
			s.Tx = n
		}
	}
	keep()
	return out, sc.Err()
}

func (u *user) port() (uint16, error) {
	text, err := u.dev.IpcGet()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "listen_port="); ok {
			n, err := strconv.ParseUint(v, 10, 16)
			return uint16(n), err
		}
	}
	return 0, errors.New("the device has no port")
}

func (u *user) close() error {
	u.dev.Close()
	return nil
}
