package peer_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/overlay/peer"
	"github.com/verge-edge/verge/internal/overlay/probe"
	"github.com/verge-edge/verge/internal/overlay/wg"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/relay"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// helperEnv makes this test's program a worker or a relay on one of the hosts.
const helperEnv = "VERGE_PEER_TEST_HELPER"

func TestMain(m *testing.M) {
	switch os.Getenv(helperEnv) {
	case "worker":
		exit(worker())
	case "network":
		exit(networkWorker())
	case "plain":
		exit(plainWorker())
	case "relay":
		exit(relayNode())
	}
	os.Exit(m.Run())
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// setup is what a helper reads first.
type setup struct {
	Dir    string
	Listen string
	Inner  netip.Addr
	Lease  wire.SignedLease
	Relays []wire.Relay
	NetNS  string // of the instance of a plain worker
}

const (
	dataPort = "8474"
	sinkPort = 9000
)

func identity(dir string) (*pki.Identity, func() (*tls.Config, error), error) {
	id, err := pki.LoadIdentity(filepath.Join(dir, "id"))
	return id, func() (*tls.Config, error) { return id.ServerTLS(tls.RequireAndVerifyClientCert), nil }, err
}

func begin(in *bufio.Scanner) (s setup, log *slog.Logger, err error) {
	in.Buffer(nil, 1<<20)
	if !in.Scan() {
		return s, nil, io.ErrUnexpectedEOF
	}
	level := slog.LevelInfo
	if os.Getenv("VERGE_TEST_DEBUG") != "" {
		level = slog.LevelDebug
	}
	return s, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})),
		json.Unmarshal(in.Bytes(), &s)
}

func relayNode() error {
	in := bufio.NewScanner(os.Stdin)
	s, log, err := begin(in)
	if err != nil {
		return err
	}
	id, conf, err := identity(s.Dir)
	if err != nil {
		return err
	}
	r, err := relay.Start(relay.Options{
		Listen: s.Listen, Name: "root", KeyFile: filepath.Join(s.Dir, "relay.key"), TLS: conf, Log: log,
		Worker: func(cs tls.ConnectionState, l wire.SignedLease) (wire.Lease, error) {
			return id.VerifyLease(cs.PeerCertificates, l)
		},
	})
	if err != nil {
		return err
	}
	defer r.Close()
	fmt.Println("ready")
	for in.Scan() {
		data, _ := json.Marshal(r.Stats())
		fmt.Println(string(data))
	}
	return nil
}

func worker() error {
	in := bufio.NewScanner(os.Stdin)
	s, log, err := begin(in)
	if err != nil {
		return err
	}
	id, conf, err := identity(s.Dir)
	if err != nil {
		return err
	}
	key, err := wg.EnsureKey(filepath.Join(s.Dir, "wg.key"))
	if err != nil {
		return err
	}
	dev, err := wg.Open(wg.Options{Key: key, Port: wg.DefaultPort, Log: log})
	if err != nil {
		return err
	}
	defer func() { _ = dev.Destroy() }()
	link, err := netlink.LinkByName(dev.Name())
	if err != nil {
		return err
	}
	if err := netlink.AddrAdd(link,
		&netlink.Addr{Flags: unix.IFA_F_NODAD,
			IPNet: &net.IPNet{IP: s.Inner.AsSlice(), Mask: net.CIDRMask(128, 128)}}); err != nil {
		return err
	}
	pr, err := probe.Open(s.Inner, nil)
	if err != nil {
		return err
	}
	me := id.Subject()
	refused := ""
	m := peer.New(peer.Options{
		Refused: func(chain []*x509.Certificate) error {
			if refused != "" && slices.Contains(chain[0].DNSNames, pki.WorkerName("edge", refused)) {
				return errors.New("revoked")
			}
			return nil
		},
		Cluster: me.Cluster, Worker: me.Name, Device: dev, TLS: conf, PeerName: pki.WorkerName,
		RelayName: func(string) string { return pki.RootName }, Verify: id.VerifyLease, Log: log,
		StateFile: filepath.Join(s.Dir, "paths.json"),
		Question: func(ctx context.Context, to netip.Addr) error {
			_, err := pr.Ask(ctx, to)
			return err
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go m.Run(ctx)
	var lease wire.Lease
	if err := json.Unmarshal(s.Lease.Body, &lease); err != nil {
		return err
	}
	m.SetNetwork(peer.Network{Lease: lease, Signed: s.Lease, Inner: s.Inner, Relays: s.Relays})
	cfg, _ := conf()
	cfg.NextProtos = []string{peer.Protocol}
	data, err := tls.Listen("tcp", ":"+dataPort, cfg)
	if err != nil {
		return err
	}
	go func() {
		for {
			c, err := data.Accept()
			if err != nil {
				return
			}
			go m.Serve(ctx, c.(*tls.Conn))
		}
	}()
	sink, err := net.Listen("tcp", netip.AddrPortFrom(s.Inner, sinkPort).String())
	if err != nil {
		return err
	}
	go func() {
		for {
			c, err := sink.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); _ = c.Close() }()
		}
	}()
	fmt.Println("ready")
	for in.Scan() {
		f := strings.Fields(in.Text())
		switch f[0] {
		case "want":
			t := peer.Target{Cluster: me.Cluster, Worker: f[1]}
			for _, x := range f[2:] {
				if strings.Contains(x, ":") {
					t.Address = x
				} else {
					t.Relay = x
				}
			}
			m.Want(t)
			fmt.Println("ok")
		case "revoke":
			refused = f[1]
			m.PeersChanged()
			fmt.Println("ok")
		case "status":
			out, _ := json.Marshal(m.Status())
			fmt.Println(string(out))
		case "echo":
			if err := echo(f[1]); err != nil {
				fmt.Println(err)
			} else {
				fmt.Println("ok")
			}
		}
	}
	return nil
}

// echo sends something to another worker's address and waits for it to come back.
func echo(to string) error {
	c, err := net.DialTimeout("tcp", net.JoinHostPort(to, fmt.Sprint(sinkPort)), 20*time.Second)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	sent := make([]byte, 100_000)
	go func() { _, _ = c.Write(sent) }()
	if n, err := io.ReadFull(c, make([]byte, len(sent))); n != len(sent) {
		return errors.Join(fmt.Errorf("%d of %d bytes came back", n, len(sent)), err)
	}
	return nil
}
