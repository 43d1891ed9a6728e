package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/lab/emul"
)

// Base is where labs have their directories.
const Base = "/run/verge-lab"

// Options of a lab.
type Options struct {
	// Base directory; "" is Base.
	Base string
	// Verge is the program that runs in the hosts.
	Verge string
	// Tool is verge-lab, which is the switch.
	Tool string
	// Say is told what happens; nil says nothing.
	Say func(format string, args ...any)
}

// Lab is one that is up, or what is left of it.
type Lab struct {
	file  File
	dir   string
	verge string
	tool  string
	say   func(format string, args ...any)

	children sync.WaitGroup // processes that this one has started
	clients  clients
}

// Host names that a lab needs for itself.
const (
	switchHost = "switch.lab" // a dot is in no host's name
	natSuffix  = ".nat"
)

func newLab(f File, o Options) *Lab {
	l := &Lab{file: f, dir: filepath.Join(o.base(), f.Name), verge: o.Verge, tool: o.Tool, say: o.Say}
	if l.say == nil {
		l.say = func(string, ...any) {}
	}
	return l
}

func (o Options) base() string {
	if o.Base == "" {
		return Base
	}
	return o.Base
}

// Possible says why there can be no lab here; nil if there can.
func Possible() error {
	if os.Geteuid() != 0 {
		return errors.New("a lab makes network namespaces and devices, which needs root: use sudo")
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		return fmt.Errorf("a lab needs the kernel's TUN device (modprobe tun): %w", err)
	}
	return nil
}

// Up makes the hosts and links of a file and starts what runs there. It returns
// when root, clusters and workers are ready. What failed half-way is removed.
func Up(ctx context.Context, f File, o Options) (*Lab, error) {
	if err := errors.Join(f.Validate(), Possible()); err != nil {
		return nil, err
	}
	l := newLab(f, o)
	if _, err := os.Lstat(l.dir); err == nil {
		return nil, fmt.Errorf("the lab %s is there already, or something is left of it: verge lab down %s", f.Name, f.Name)
	}
	if err := l.up(ctx); err != nil {
		return nil, errors.Join(err, l.Down())
	}
	return l, nil
}

func (l *Lab) up(ctx context.Context) error {
	if err := l.makeDir(); err != nil {
		return err
	}
	if err := l.makeHosts(); err != nil {
		return err
	}
	if err := l.startSwitch(ctx); err != nil {
		return err
	}
	l.say("emulation of links: %s", Emulation)
	return l.startRoles(ctx)
}

// Emulation says what emulates links.
const Emulation = "the built-in switch, in user space"

// Of returns a lab by its name, "" for the only one. It need not be whole.
func Of(name string, o Options) (*Lab, error) {
	all, err := List(o)
	if err != nil {
		return nil, err
	}
	switch {
	case name == "" && len(all) == 1:
		name = all[0]
	case name == "" && len(all) == 0:
		return nil, errors.New("no lab is up: verge lab up FILE")
	case name == "":
		return nil, fmt.Errorf("%d labs are up: say which of %s", len(all), strings.Join(all, ", "))
	case !slices.Contains(all, name):
		return nil, fmt.Errorf("there is no lab %s: verge lab status shows what is up", name)
	}
	f := File{Name: name}
	b, err := os.ReadFile(filepath.Join(o.base(), name, "lab.json"))
	if err == nil {
		err = json.Unmarshal(b, &f)
	}
	l := newLab(f, o)
	if err != nil {
		return l, fmt.Errorf("the lab %s is not whole: %w: verge lab down %s", name, err, name)
	}
	return l, nil
}

// List names the labs that are up, or of which something is left.
func List(o Options) ([]string, error) {
	entries, err := os.ReadDir(o.base())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, e.Name())
		}
	}
	return out, err
}

// Name of the lab.
func (l *Lab) Name() string { return l.file.Name }

// Program that runs in the hosts.
func (l *Lab) Program() string { return l.verge }

// Tool is verge-lab.
func (l *Lab) Tool() string { return l.tool }

// File that it was made of.
func (l *Lab) File() File { return l.file }

// Dir of a host: its data, while the lab is up.
func (l *Lab) Dir(host string) string { return filepath.Join(l.dir, "hosts", host) }

// Log is where the process of a host, or the switch, writes.
func (l *Lab) Log(host string) string { return filepath.Join(l.dir, "logs", host+".log") }

func (l *Lab) namespace(kind, host string) string { return filepath.Join(l.dir, kind, host) }

func (l *Lab) control() emul.Control {
	return emul.Control{Socket: filepath.Join(l.dir, "switch.sock")}
}

// Address of a host, by which the others reach it; that of its NAT if it is
// behind one.
func (l *Lab) Address(host string) netip.Addr {
	return emul.Address4(slices.Index(l.file.names(), host))
}

// Address6 is that in IPv6. Behind a NAT a host has none.
func (l *Lab) Address6(host string) netip.Addr {
	return emul.Address6(slices.Index(l.file.names(), host))
}

// makeDir makes the directory, in memory: what disks do is not what a lab is
// about, and the machine has one for all hosts.
func (l *Lab) makeDir() error {
	if err := os.MkdirAll(l.dir, 0o711); err != nil {
		return fmt.Errorf("directory of the lab: %w", err)
	}
	if err := unix.Mount("verge-lab", l.dir, "tmpfs", 0, "mode=711"); err != nil {
		return fmt.Errorf("mount memory at %s: %w", l.dir, err)
	}
	// Else the files of namespaces would appear in these namespaces themselves.
	if err := unix.Mount("", l.dir, "", unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts below %s to this namespace: %w", l.dir, err)
	}
	for _, d := range []string{"net", "mnt", "hosts", "logs"} {
		if err := os.Mkdir(filepath.Join(l.dir, d), 0o711); err != nil {
			return err
		}
	}
	b, err := json.Marshal(l.file)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(l.dir, "lab.json"), b, 0o600)
}

func (l *Lab) startSwitch(ctx context.Context) error {
	links, err := l.file.links()
	if err != nil {
		return err
	}
	normal, err := l.file.Links.Default.Over(emul.Link{})
	if err != nil {
		return err
	}
	sites, err := l.file.sites(l.file.Sites)
	if err != nil {
		return err
	}
	c := emul.Config{Seed: l.file.Seed, Default: normal, Links: links, Sites: sites}
	for _, name := range l.file.names() {
		h := l.file.Hosts[name]
		p := emul.Port{Host: name, Namespace: l.namespace("net", name), Device: hostDevice, Uplink: int64(h.Uplink), UplinkBuffer: int64(h.UplinkBuffer)}
		if h.NAT != "" {
			p.Namespace, p.Device = l.namespace("net", name+natSuffix), wanDevice
		}
		c.Ports = append(c.Ports, p)
	}
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	config := filepath.Join(l.dir, "switch.json")
	if err := os.WriteFile(config, b, 0o600); err != nil {
		return err
	}
	ended, err := l.start(switchHost, exec.Command(l.tool, "switch", config, l.control().Socket))
	if err != nil {
		return fmt.Errorf("start the lab's switch: %w", err)
	}
	return until(ctx, 30*time.Second, "the lab's switch", func() error {
		select {
		case <-ended:
			return final{fmt.Errorf("it ended: %s", tail(l.Log(switchHost)))}
		default:
		}
		_, err := l.control().Stats()
		return err
	})
}

// final is an error that waiting does not cure.
type final struct{ error }

func (e final) Unwrap() error { return e.error }

// until waits for f to return nil, which is what.
func until(ctx context.Context, timeout time.Duration, what string, f func() error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for pause := 2 * time.Millisecond; ; pause = min(pause*3/2, 50*time.Millisecond) {
		err := f()
		if err == nil {
			return nil
		}
		if errors.As(err, new(final)) {
			return fmt.Errorf("%s: %w", what, err)
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return fmt.Errorf("%s: gave up waiting: %w", what, err)
		}
	}
}

// tail of a log, for an error.
func tail(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	const most = 2000
	return strings.TrimSpace(string(b[max(0, len(b)-most):]))
}

// Set changes the link between two hosts, both directions unless oneWay, and
// returns what it is now.
func (l *Lab) Set(a, b string, s LinkSpec, oneWay bool) (emul.Link, error) {
	names := l.file.names()
	i, j := slices.Index(names, a), slices.Index(names, b)
	if i < 0 || j < 0 || i == j {
		return emul.Link{}, fmt.Errorf("no link between %q and %q: the hosts are %s", a, b, some(names))
	}
	st, err := l.control().Stats()
	if err != nil {
		return emul.Link{}, err
	}
	normal, err := l.file.Links.Default.Over(emul.Link{})
	if err != nil {
		return emul.Link{}, err
	}
	var set []emul.Set
	for _, d := range [][2]int{{i, j}, {j, i}} {
		link := normal
		for _, x := range st.Links {
			if x.From == d[0] && x.To == d[1] {
				link = x.Link
			}
		}
		if link, err = s.Over(link); err != nil {
			return emul.Link{}, err
		}
		set = append(set, emul.Set{From: d[0], To: d[1], Link: link})
		if oneWay {
			break
		}
	}
	return set[0].Link, l.control().Set(set)
}

// SetSites replaces the sites that hosts share a connection in.
func (l *Lab) SetSites(sites map[string]Site) error {
	all, err := l.file.sites(sites)
	if err != nil {
		return err
	}
	return l.control().SetSites(all)
}

// Stats of the switch.
func (l *Lab) Stats() (emul.Stats, error) { return l.control().Stats() }

// Between sums what went from some hosts to others.
func (l *Lab) Between(st emul.Stats, from, to []string) (sum emul.Count) {
	names := l.file.names()
	for _, x := range st.Links {
		if slices.Contains(from, names[x.From]) && slices.Contains(to, names[x.To]) {
			sum = sum.Add(x.Count)
		}
	}
	return sum
}

// RTT that is set between two hosts, without jitter and queues.
func (l *Lab) RTT(st emul.Stats, a, b string) time.Duration {
	names := l.file.names()
	i, j := slices.Index(names, a), slices.Index(names, b)
	normal, _ := l.file.Links.Default.Over(emul.Link{}) // it was validated
	there, back := normal.Latency, normal.Latency
	for _, x := range st.Links {
		if x.From == i && x.To == j {
			there = x.Link.Latency
		}
		if x.From == j && x.To == i {
			back = x.Link.Latency
		}
	}
	return there + back
}
