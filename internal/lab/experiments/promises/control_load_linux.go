package promises

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/lab"
	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/lab/experiments/bed"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// ControlUnderLoad is the experiment control-under-load.
var ControlUnderLoad = experiment.Experiment{
	Name: "control-under-load", Source: "none: a promise of Verge", Emulated: true,
	Shows: "how much later a cluster hears of a worker, and orders are carried out there, while its instances send as much as its uplink carries and more: with --uplink and without",
	Lab:   runControlUnderLoad,
}

const (
	// What a worker's line carries.
	loadedUplink = 10_000_000 // bit/s
	// promisedDelay is what load may add.
	promisedDelay = 200 * time.Millisecond
	// orderPatience is when an order that is not answered counts as one that took as
	// long.
	orderPatience = 5 * time.Second
	loadPort      = 8090
	// A connection of its own beside the tunnel goes to this port of the machine.
	besidePort = 8190
)

// loadedWorkers have the same line. That of the first is not loaded: it shows what
// else this machine does meanwhile. One says by --uplink what it has.
var loadedWorkers = []struct {
	name            string
	loaded, bounded bool
}{{"calm", false, false}, {"bounded", true, true}, {"unbounded", true, false}}

// The kinds of load.
const (
	loadTCP = "tcp"
	loadUDP = "udp"
	// loadBeside leaves the worker without its tunnel, as what its router sends does.
	loadBeside = "beside the tunnel"
)

func runControlUnderLoad(ctx context.Context, e *experiment.Env) (err error) {
	type link struct {
		rtt  time.Duration
		loss float64
	}
	links, loads, window, scales := []link{{2 * time.Millisecond, 0}, {100 * time.Millisecond, 0}, {100 * time.Millisecond, 0.01}},
		[]string{loadTCP, loadUDP, loadBeside}, 20*time.Second, 8
	// How long the line may hold what does not fit, as modems do.
	modem := time.Second
	if e.Quick {
		links, loads, window, scales, modem = links[:1], []string{loadTCP + " and " + loadUDP}, 2500*time.Millisecond, 3, modem/2
	}
	rtt, rate, queue := api.Duration(bed.Lan), api.Bitrate(loadedUplink), api.Bytes(loadedUplink/8*modem.Seconds())
	f := lab.File{
		Links: lab.Links{Default: lab.LinkSpec{RTT: &rtt}},
		Hosts: map[string]lab.Host{
			"root": {Role: lab.RoleRoot}, "edge": {Role: lab.RoleCluster, Flags: []string{"--interval", "1s"}},
			"sink": {Role: lab.RoleWorker, Flags: bed.InNetwork("sink")},
		},
	}
	workers := []string{"sink"}
	for _, w := range loadedWorkers {
		flags := bed.InNetwork(w.name)
		if w.bounded {
			flags = append(flags, "--uplink", rate.String())
		}
		f.Hosts[w.name] = lab.Host{Role: lab.RoleWorker, Flags: flags, Uplink: rate, UplinkBuffer: queue}
		workers = append(workers, w.name)
	}
	n, err := bed.NetworkOf(ctx, e, f, workers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Down()) }()
	b, err := newBurden(ctx, n)
	if err != nil {
		return err
	}
	defer b.close()
	for _, l := range links {
		r, loss := api.Duration(l.rtt), lab.Share(l.loss)
		for _, w := range loadedWorkers {
			for _, other := range []string{"edge", "sink"} {
				if _, err := n.Set(w.name, other, lab.LinkSpec{RTT: &r, Loss: &loss}, false); err != nil {
					return err
				}
			}
		}
		for _, load := range loads {
			before, err := n.Stats()
			if err != nil {
				return err
			}
			from := len(e.Rows)
			got, err := b.under(ctx, load, window, modem, scales)
			if err != nil {
				return err
			}
			for i, w := range loadedWorkers {
				p := map[string]any{"load": load, "worker": w.name, "rtt_ms": lab.Milliseconds(l.rtt), "loss": l.loss}
				promised := w.bounded && load != loadBeside
				feltRows(e, p, got[i], promised)
				if w.loaded {
					added(e, p, got[i], got[0], promised)
				}
			}
			after, err := n.Stats()
			if err != nil {
				return err
			}
			// A meter's pings would wait in the lines too.
			e.Measured(from, lab.Lateness(before, after))
		}
	}
	return nil
}

// felt is what a worker's control was like for a while.
type felt struct {
	silence         []float64 // times for which the cluster heard nothing, ms
	answers, starts []float64 // of orders, ms
	mbps            float64   // of load that arrived
	waited          lab.Accuracy
}

// feltRows adds the rows about one worker under one load.
func feltRows(e *experiment.Env, p map[string]any, got felt, promised bool) {
	e.Row(experiment.Row{Params: p, Metric: "packet_delay", Unit: "ms", Measured: lab.Milliseconds(got.waited.ErrorP50)})
	r := e.Row(experiment.Row{Params: p, Metric: "packet_delay_p99", Unit: "ms", Measured: lab.Milliseconds(got.waited.ErrorP99)})
	if promised {
		promise(r)
	}
	e.Row(experiment.Row{Params: p, Metric: "heartbeat_silence", Unit: "ms", Measured: quarter(got.silence)})
	e.Row(experiment.Row{Params: p, Metric: "heartbeat_silence_max", Unit: "ms", Measured: slices.Max(got.silence)})
	e.Row(experiment.Row{Params: p, Metric: "order_answered", Unit: "ms", Measured: experiment.Median(got.answers)})
	e.Row(experiment.Row{Params: p, Metric: "order_answered_max", Unit: "ms", Measured: slices.Max(got.answers)})
	e.Row(experiment.Row{Params: p, Metric: "instance_running", Unit: "ms", Measured: experiment.Median(got.starts)})
	e.Row(experiment.Row{Params: p, Metric: "load_arrived", Unit: "Mbit/s", Measured: got.mbps})
}

// added adds the rows about what is slower than at the worker whose line is calm.
func added(e *experiment.Env, p map[string]any, got, calm felt, promised bool) {
	for _, x := range []struct {
		metric   string
		by       float64
		promised bool
	}{
		{"heartbeat_added", quarter(got.silence) - quarter(calm.silence), true},
		{"order_added", experiment.Median(got.answers) - experiment.Median(calm.answers), true},
		// One or two starts tell more of who has the processors just then.
		{"running_added", experiment.Median(got.starts) - experiment.Median(calm.starts), !e.Quick},
	} {
		r := e.Row(experiment.Row{Params: p, Metric: x.metric, Unit: "ms", Measured: x.by})
		if promised && x.promised {
			promise(r)
		}
	}
}

// quarter is what a quarter of all reaches: a report is due after a second, those of
// something new come earlier.
func quarter(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)*3/4]
}

// promise says what is promised of a delay, and whether it is kept.
func promise(r *experiment.Row) {
	r.Expected = experiment.Known(lab.Milliseconds(promisedDelay))
	if r.Measured > *r.Expected {
		r.Short = fmt.Sprintf("load adds more than %v", promisedDelay)
	}
}

// burden is who loads the workers, and what is ordered of them meanwhile.
type burden struct {
	bed.Network
	talkers  map[string]bed.Sleeper // by worker
	to       netip.Addr             // of who listens
	replicas map[string]*int        // of the service that is scaled, by worker
	arrived  map[string]*atomic.Int64
	closers  []io.Closer
	readers  sync.WaitGroup
}

func newBurden(ctx context.Context, n bed.Network) (_ *burden, err error) {
	b := &burden{Network: n, talkers: map[string]bed.Sleeper{}, replicas: map[string]*int{}, arrived: map[string]*atomic.Int64{}}
	services := []string{bed.Asleep("ear", 1, "sink", bed.Listens)}
	for _, w := range loadedWorkers {
		services = append(services, bed.Asleep("talk-"+w.name, 1, w.name), bed.Asleep("more-"+w.name, 1, w.name))
		one := 1
		b.replicas[w.name], b.arrived[w.name] = &one, new(atomic.Int64)
	}
	if err := n.Apply(ctx, services...); err != nil {
		return nil, err
	}
	ears, err := n.Sleepers(ctx, "ear")
	if err != nil {
		return nil, err
	}
	b.to = ears[0].Addr
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	for i, w := range loadedWorkers {
		list, err := n.Sleepers(ctx, "talk-"+w.name)
		if err != nil {
			return nil, err
		}
		b.talkers[w.name] = list[0]
		if err := b.listen(ears[0].In, loadPort+i, w.name); err != nil {
			return nil, err
		}
		if err := b.listen(bed.At(n.Lab, "sink"), besidePort+i, w.name); err != nil {
			return nil, err
		}
		// The path is there before anything is measured.
		ok, err := experiment.Poll(ctx, 30*time.Second, func() (bool, error) {
			c, err := b.dial(b.talkers[w.name].In, "tcp4", netip.AddrPortFrom(b.to, uint16(loadPort+i))) //nolint:gosec // a few
			if err == nil {
				err = c.Close()
			}
			return err == nil, nil
		})
		if err == nil && !ok {
			err = fmt.Errorf("nothing can be sent from %s", w.name)
		}
		if err != nil {
			return nil, err
		}
	}
	return b, nil
}

// listen takes what comes to a port of a place, and counts it for a worker.
func (b *burden) listen(where bed.Place, port int, worker string) error {
	var ln net.Listener
	var pc net.PacketConn
	at := fmt.Sprintf(":%d", port)
	if err := where(func() (err error) {
		if ln, err = net.Listen("tcp4", at); err == nil {
			pc, err = net.ListenPacket("udp4", at)
		}
		return err
	}); err != nil {
		return fmt.Errorf("listen for load: %w", err)
	}
	count := b.arrived[worker]
	b.closers = append(b.closers, ln, pc)
	b.readers.Go(func() {
		buf := make([]byte, 2048)
		for {
			n, _, err := pc.ReadFrom(buf)
			if err != nil {
				return // it was closed
			}
			count.Add(int64(n))
		}
	})
	b.readers.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return // it was closed
			}
			b.readers.Go(func() {
				buf := make([]byte, 64<<10)
				for {
					n, err := c.Read(buf)
					count.Add(int64(n))
					if err != nil {
						_ = c.Close() // the sender has ended
						return
					}
				}
			})
		}
	})
	return nil
}

func (b *burden) close() {
	for _, c := range b.closers {
		_ = c.Close() // nothing is lost by it
	}
	b.readers.Wait()
}

func (b *burden) dial(from bed.Place, network string, to netip.AddrPort) (c net.Conn, err error) {
	err = from(func() (err error) {
		c, err = net.DialTimeout(network, to.String(), 3*time.Second)
		return err
	})
	return c, err
}

// load sends from a worker until it is stopped.
func (b *burden) load(i int, kind string) (stop func(), err error) {
	w := loadedWorkers[i].name
	from, tcp, udp := b.talkers[w].In, kind != loadUDP, kind != loadTCP && kind != loadBeside
	to := netip.AddrPortFrom(b.to, uint16(loadPort+i)) //nolint:gosec // a few
	if kind == loadBeside {
		from, to = bed.At(b.Lab, w), netip.AddrPortFrom(b.Address("sink"), uint16(besidePort+i)) //nolint:gosec // a few
	}
	var conns []net.Conn
	var senders sync.WaitGroup
	ended := make(chan struct{})
	stop = func() {
		close(ended)
		for _, c := range conns {
			if t, ok := c.(*net.TCPConn); ok {
				_ = t.SetLinger(0) // what waits is of no use
			}
			_ = c.Close()
		}
		senders.Wait()
	}
	const streams = 4
	for range streams {
		if !tcp {
			break
		}
		c, err := b.dial(from, "tcp4", to)
		if err != nil {
			stop()
			return nil, fmt.Errorf("load of %s: %w", w, err)
		}
		conns = append(conns, c)
		senders.Go(func() {
			buf := make([]byte, 64<<10)
			for {
				if _, err := c.Write(buf); err != nil {
					return // it was closed
				}
			}
		})
	}
	if udp {
		c, err := b.dial(from, "udp4", to)
		if err != nil {
			stop()
			return nil, fmt.Errorf("load of %s: %w", w, err)
		}
		conns = append(conns, c)
		senders.Go(func() { flood(c, ended) })
	}
	return stop, nil
}

// flood sends datagrams of one and a half times what the line carries.
func flood(c net.Conn, ended <-chan struct{}) {
	const size, every = 1200, 5 * time.Millisecond
	buf := make([]byte, size)
	begin, sent := time.Now(), 0
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return
		case <-tick.C:
		}
		due := int(time.Since(begin).Seconds() * loadedUplink * 1.5 / 8 / size)
		for ; sent < due; sent++ {
			if _, err := c.Write(buf); errors.Is(err, net.ErrClosed) {
				return
			}
		}
	}
}

// under loads workers for a while, and sees what the control of all is like. How the
// load begins belongs to it.
func (b *burden) under(ctx context.Context, kind string, window, modem time.Duration, scales int) ([]felt, error) {
	edge, err := b.Client("edge")
	if err != nil {
		return nil, err
	}
	before := make([]int64, len(loadedWorkers))
	begin := time.Now()
	for i, w := range loadedWorkers {
		before[i] = b.arrived[w.name].Load()
		if !w.loaded {
			continue
		}
		stop, err := b.load(i, kind)
		if err != nil {
			return nil, err
		}
		defer stop()
	}
	out := make([]felt, len(loadedWorkers))
	// Pings are a hundredth of what the line carries, and the kernels' business alone:
	// they tell the line from processors that are busy.
	meters := make([]*lab.Meter, len(loadedWorkers))
	for i, w := range loadedWorkers {
		if meters[i], err = b.Measure([][2]string{{"edge", w.name}}); err != nil {
			return nil, err
		}
	}
	errs := make([]error, 2*len(loadedWorkers)+1)
	end := begin.Add(window)
	var all sync.WaitGroup
	all.Go(func() {
		ages := make([]float64, len(loadedWorkers))
		defer func() {
			for i, age := range ages { // the silence that has not ended
				if len(out[i].silence) == 0 || age > slices.Max(out[i].silence) {
					out[i].silence = append(out[i].silence, age)
				}
			}
		}()
		for time.Now().Before(end) {
			list, err := edge.Workers.List(ctx)
			if err != nil {
				errs[0] = err
				return
			}
			for i, w := range loadedWorkers {
				for _, v := range list {
					if v.Name == w.name {
						// Its age falls when it is heard, and what it was before is that silence.
						age := 1000 * v.AgeSeconds
						if age < ages[i] {
							out[i].silence = append(out[i].silence, ages[i])
						}
						ages[i] = age
					}
				}
			}
			if errs[0] = experiment.Pause(ctx, 20*time.Millisecond); errs[0] != nil {
				return
			}
		}
	})
	for i, w := range loadedWorkers {
		all.Go(func() { out[i].answers, errs[1+2*i] = b.orders(ctx, b.talkers[w.name].ID, end) })
		all.Go(func() { out[i].starts, errs[2+2*i] = b.scales(ctx, w.name, scales, modem, end) })
	}
	all.Wait()
	took := time.Since(begin)
	for i, w := range loadedWorkers {
		var err error
		if out[i].waited, err = meters[i].Stop(); err != nil {
			errs = append(errs, err)
		}
		out[i].mbps = float64(b.arrived[w.name].Load()-before[i]) * 8 / 1e6 / took.Seconds()
	}
	return out, errors.Join(errs...)
}

// orders has a program started in an instance again and again, and measures how long
// it takes until the worker has said that it was. What takes too long counts as long
// as that.
func (b *burden) orders(ctx context.Context, id wire.InstanceID, end time.Time) (took []float64, err error) {
	edge, err := b.Client("edge")
	if err != nil {
		return nil, err
	}
	for len(took) == 0 || time.Now().Before(end) {
		begin := time.Now()
		ctx2, cancel := context.WithTimeout(ctx, orderPatience)
		session, err := edge.Exec.Start(ctx2, id, rpc.ExecStart{Key: rand.Text(), Command: []string{"true"}})
		cancel()
		took = append(took, lab.Milliseconds(time.Since(begin)))
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err == nil {
			ctx2, cancel := context.WithTimeout(ctx, orderPatience)
			_ = edge.Exec.End(ctx2, session) // it ends by itself too
			cancel()
		}
		if err := experiment.Pause(ctx, 100*time.Millisecond); err != nil {
			return nil, err
		}
	}
	return took, nil
}

// scales adds instances one after the other until the end, one at least, and measures
// how long it takes until its cluster knows that each runs.
func (b *burden) scales(ctx context.Context, worker string, n int, modem time.Duration, end time.Time) (took []float64, err error) {
	edge, err := b.Client("edge")
	if err != nil {
		return nil, err
	}
	service, replicas := "more-"+worker, b.replicas[worker]
	// The first one when the load has filled the line, the others spread over the time.
	wait, spread := 2*modem, time.Until(end)/time.Duration(2*n)
	for len(took) == 0 || len(took) < n && time.Now().Before(end) {
		if err := experiment.Pause(ctx, wait); err != nil {
			return nil, err
		}
		wait = spread
		*replicas++
		begin := time.Now()
		if _, err := b.API.Services.Scale(ctx, bed.Deployed, service, *replicas); err != nil {
			return nil, fmt.Errorf("scale %s: %w", service, err)
		}
		if _, err := experiment.Poll(ctx, 4*orderPatience, func() (bool, error) {
			list, err := edge.Instances.List(ctx, bed.Deployed, service)
			running := 0
			for _, v := range list {
				if v.State == wire.Running {
					running++
				}
			}
			return running >= *replicas, err
		}); err != nil {
			return nil, err
		}
		took = append(took, lab.Milliseconds(time.Since(begin)))
	}
	return took, nil
}
