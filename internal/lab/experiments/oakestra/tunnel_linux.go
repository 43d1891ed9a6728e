package oakestra

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/lab"
	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/lab/experiments/bed"
	"github.com/verge-edge/verge/internal/overlay/wg"
)

// Tunnel is the experiment oakestra-tunnel.
var Tunnel = experiment.Experiment{
	Name: "oakestra-tunnel", Source: "Oakestra fig. 12", Emulated: true,
	Shows: "time of a download over links of 100 Mbit/s by their delay: plain between hosts, by WireGuard alone, and between instances by a service's address",
	Lab:   runTunnel,
	Plot:  &experiment.Plot{X: "delay_ms", Series: "by", Metric: "download_time", Title: "download time, s"},
}

const (
	tunnelRate = 100_000_000 // bit/s
	// tunnelMost is how much longer than by WireGuard alone the paper's took.
	tunnelMost = 1.10
	// Hosts with nothing but WireGuard.
	alone1, alone2 = "alone-1", "alone-2"
	downloadPort   = 8080
)

// download is one way to get the bytes: from and to are where.
type download struct {
	by       string
	from, to bed.Place
	addr     netip.AddrPort
}

func runTunnel(ctx context.Context, e *experiment.Env) (err error) {
	size, repeats, delays := 100_000_000, 3, []time.Duration{10, 50, 100, 250}
	if e.Quick {
		size, repeats, delays = 2_000_000, 1, []time.Duration{10, 100}
	}
	n, err := bed.NewNetwork(ctx, e, bed.Lan, []string{"w1", "w2"}, alone1, alone2)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Down()) }()
	alone, err := wireGuardAlone(n, e.Tool)
	if err != nil {
		return err
	}
	if err := n.Apply(ctx, bed.Asleep("client", 1, "w1", bed.Listens), bed.Asleep("server", 1, "w2", bed.Listens)); err != nil {
		return err
	}
	client, err1 := n.Sleepers(ctx, "client")
	server, err2 := n.Sleepers(ctx, "server")
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	service, err := n.Service(client[0], "server")
	if err != nil {
		return err
	}
	ways := []download{
		{"plain", bed.At(n.Lab, alone1), bed.At(n.Lab, alone2), netip.AddrPortFrom(n.Address(alone2), downloadPort)},
		{"wireguard", bed.At(n.Lab, alone1), bed.At(n.Lab, alone2), netip.AddrPortFrom(alone, downloadPort)},
		{"service", client[0].In, server[0].In, service},
	}
	for _, w := range ways[1:] {
		stop, err := serveBytes(w, size)
		if err != nil {
			return err
		}
		defer stop()
	}
	rate := api.Bitrate(tunnelRate)
	pairs := [][2]string{{"w1", "w2"}, {alone1, alone2}}
	for _, ms := range delays {
		rtt := api.Duration(ms * time.Millisecond)
		for _, p := range pairs {
			if _, err := n.Set(p[0], p[1], lab.LinkSpec{RTT: &rtt, Rate: &rate}, false); err != nil {
				return err
			}
		}
		if err := tunnel(ctx, e, n, ways, ms*time.Millisecond, size, repeats); err != nil {
			return err
		}
	}
	return nil
}

// tunnel downloads in all ways over links of one delay.
func tunnel(ctx context.Context, e *experiment.Env, n bed.Network, ways []download, delay time.Duration, size, repeats int) error {
	before, err := n.Stats()
	if err != nil {
		return err
	}
	took := map[string][]float64{}
	for range repeats {
		for _, w := range ways {
			// The path is there before anything is measured.
			there, err := experiment.Poll(ctx, 20*time.Second, func() (bool, error) {
				_, err := w.fetch(ctx, 1)
				if err != nil {
					e.Say("%s: before anything is measured: %v", e.Name, err)
				}
				return err == nil, nil
			})
			if err == nil && !there {
				err = fmt.Errorf("nothing can be downloaded by %s", w.by)
			}
			if err != nil {
				return err
			}
			d, err := w.fetch(ctx, size)
			if err != nil {
				return err
			}
			took[w.by] = append(took[w.by], d.Seconds())
		}
	}
	// Queues are no errors of the emulator: a meter's pings would wait in them.
	after, err := n.Stats()
	if err != nil {
		return err
	}
	first := len(e.Rows)
	params := func(by string) map[string]any {
		p := map[string]any{"delay_ms": lab.Milliseconds(delay), "megabytes": float64(size) / 1e6}
		if by != "" {
			p["by"] = by
		}
		return p
	}
	for _, w := range ways {
		e.Row(experiment.Row{Params: params(w.by), Metric: "download_time", Unit: "s", Measured: experiment.Median(took[w.by])})
	}
	e.Row(experiment.Row{Params: params(""), Metric: "over_plain", Unit: "1", Measured: experiment.Median(took["service"]) / experiment.Median(took["plain"])})
	r := e.Row(experiment.Row{Params: params(""), Metric: "over_wireguard", Unit: "1", Paper: experiment.Known(tunnelMost), Expected: experiment.Known(1), Measured: experiment.Median(took["service"]) / experiment.Median(took["wireguard"])})
	if r.Measured > tunnelMost && !e.Quick {
		r.Short = fmt.Sprintf("it takes more than %g × as long as by WireGuard alone", tunnelMost)
	}
	e.Measured(first, lab.Lateness(before, after))
	return nil
}

// fetch downloads so many bytes on a connection of their own.
func (w download) fetch(ctx context.Context, size int) (took time.Duration, err error) {
	t := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, addr string) (c net.Conn, err error) {
		err = w.from(func() (err error) {
			c, err = (&net.Dialer{}).DialContext(ctx, network, addr)
			return err
		})
		return c, err
	}}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s/%d", w.addr, size), nil)
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	resp, err := t.RoundTrip(req)
	if err != nil {
		return 0, fmt.Errorf("download by %s: %w", w.by, err)
	}
	got, err := io.Copy(io.Discard, resp.Body)
	took = time.Since(begin)
	if err = errors.Join(err, resp.Body.Close()); err == nil && got != int64(size) {
		err = fmt.Errorf("%d bytes of %d", got, size)
	}
	if err != nil {
		return 0, fmt.Errorf("download by %s: %w", w.by, err)
	}
	return took, nil
}

// serveBytes answers at the far end of a way with as many zeros as are asked for, at
// most most.
func serveBytes(w download, most int) (stop func(), err error) {
	var ln net.Listener
	if err := w.to(func() (err error) {
		ln, err = net.Listen("tcp4", fmt.Sprintf(":%d", w.addr.Port()))
		return err
	}); err != nil {
		return nil, fmt.Errorf("listen for %s: %w", w.by, err)
	}
	zeros := make([]byte, 256<<10)
	s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		left, err := strconv.Atoi(r.URL.Path[1:])
		if err != nil || left < 0 || left > most {
			http.Error(rw, "how many?", http.StatusBadRequest)
			return
		}
		rw.Header().Set("Content-Length", strconv.Itoa(left))
		for left > 0 && err == nil {
			var n int
			n, err = rw.Write(zeros[:min(left, len(zeros))])
			left -= n
		}
	})}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(ln) }() // it ends by Close
	return func() { _ = s.Close(); <-done }, nil
}

// tunnelEnd is what one process of WireGuard alone is told.
type tunnelEnd struct {
	// Key is the file of its own key, Peer the other's.
	Key  string
	Peer string
	// Address is its own, Other that of the peer, Endpoint where the peer is.
	Address  netip.Prefix
	Other    netip.Prefix
	Endpoint netip.AddrPort
}

// wireGuardAlone makes a tunnel between two hosts by the same code as workers use,
// in the kernel where that has it, and without anything else. It returns the address
// of the second end.
func wireGuardAlone(n bed.Network, tool string) (netip.Addr, error) {
	hosts := []string{alone1, alone2}
	addrs := []netip.Prefix{netip.MustParsePrefix("192.168.77.1/32"), netip.MustParsePrefix("192.168.77.2/32")}
	var keys []wg.Private
	var files []string
	for _, h := range hosts {
		file := filepath.Join(n.Dir(h), "wireguard.key")
		k, err := wg.EnsureKey(file)
		if err != nil {
			return netip.Addr{}, err
		}
		keys, files = append(keys, k), append(files, file)
	}
	for i, h := range hosts {
		o := 1 - i
		b, err := json.Marshal(tunnelEnd{
			Key: files[i], Peer: keys[o].Public().String(), Address: addrs[i], Other: addrs[o],
			Endpoint: netip.AddrPortFrom(n.Address(hosts[o]), wg.DefaultPort),
		})
		if err != nil {
			return netip.Addr{}, err
		}
		config := filepath.Join(n.Dir(h), "wireguard.json")
		if err := os.WriteFile(config, b, 0o600); err != nil {
			return netip.Addr{}, err
		}
		if _, err := n.Start(h, tool, "wireguard", config); err != nil {
			return netip.Addr{}, err
		}
	}
	for _, h := range hosts {
		ready, err := experiment.Poll(context.Background(), 30*time.Second, func() (bool, error) {
			err := n.Do(h, func() error { _, err := netlink.LinkByName(wg.DefaultName); return err })
			return err == nil, nil
		})
		if err == nil && !ready {
			err = fmt.Errorf("WireGuard at %s: see %s", h, n.Log(h))
		}
		if err != nil {
			return netip.Addr{}, err
		}
	}
	return addrs[1].Addr(), nil
}

// ServeWireGuard is one end of a tunnel of nothing but WireGuard, in the network of
// this process, until ctx ends.
func ServeWireGuard(ctx context.Context, config string) error {
	b, err := os.ReadFile(config)
	if err != nil {
		return err
	}
	var end tunnelEnd
	if err := json.Unmarshal(b, &end); err != nil {
		return fmt.Errorf("%s: %w", config, err)
	}
	key, err := wg.EnsureKey(end.Key)
	if err != nil {
		return err
	}
	peer, err := wg.ParseKey(end.Peer)
	if err != nil {
		return err
	}
	d, err := wg.Open(wg.Options{Key: key, Port: wg.DefaultPort})
	if err != nil {
		return err
	}
	link, err := netlink.LinkByIndex(d.Index())
	if err == nil {
		var own *netlink.Addr
		if own, err = netlink.ParseAddr(end.Address.String()); err == nil {
			err = netlink.AddrAdd(link, own)
		}
	}
	if err == nil {
		err = d.Set(wg.Peer{Key: peer, Endpoint: end.Endpoint, Allowed: []netip.Prefix{end.Other}})
	}
	if err != nil {
		return errors.Join(err, d.Close())
	}
	<-ctx.Done()
	return d.Close()
}
