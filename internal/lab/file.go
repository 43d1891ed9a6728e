package lab

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/lab/emul"
)

// File is what a lab file says.
type File struct {
	// Name of the lab, a DNS label of at most 20 characters.
	Name string `yaml:"name"`
	// Seed of loss and jitter.
	Seed uint64 `yaml:"seed"`
	// Links between the hosts.
	Links Links `yaml:"links"`
	// Hosts by their names.
	Hosts map[string]Host `yaml:"hosts"`
	// Sites by their names: hosts that share one connection to all others.
	Sites map[string]Site `yaml:"sites"`
}

// Site is hosts behind one connection. What they send each other does not pass it.
type Site struct {
	Hosts []string `yaml:"hosts"`
	// Up is what leaves it, Down what comes in, all hosts together, 0 without limit;
	// Buffer is what may wait in front of each, 0 as of a link.
	Up     api.Bitrate `yaml:"up"`
	Down   api.Bitrate `yaml:"down"`
	Buffer api.Bytes   `yaml:"buffer"`
}

// Links are found in this order: Between, else Matrix where both hosts have a
// place in it, else Default.
type Links struct {
	// Matrix is the name of one that comes with the lab, or a CSV file; "" is none.
	Matrix string `yaml:"matrix"`
	// Default of what nothing else is said about; what it says of jitter, loss and
	// rate counts for the links of the matrix too.
	Default LinkSpec `yaml:"default"`
	// Between pairs of hosts, both directions.
	Between []Pair `yaml:"between"`
}

// Pair is a link of its own between two hosts.
type Pair struct {
	Hosts    []string `yaml:"hosts"`
	LinkSpec `yaml:",inline"`
	// OneWay: from the first to the second only.
	OneWay bool `yaml:"one_way"`
}

// LinkSpec is a link as people write it; nil is unchanged.
type LinkSpec struct {
	// Latency of one direction; RTT is both together.
	Latency *api.Duration `yaml:"latency"`
	RTT     *api.Duration `yaml:"rtt"`
	Jitter  *api.Duration `yaml:"jitter"`
	// Loss as "20%" or 0.2, in each direction.
	Loss    *Share       `yaml:"loss"`
	Rate    *api.Bitrate `yaml:"rate"`
	Buffer  *api.Bytes   `yaml:"buffer"`
	Reorder *bool        `yaml:"reorder"`
	Cut     *bool        `yaml:"cut"`
}

// Share is a part of all, 0 to 1; people may write it in percent.
type Share float64

// UnmarshalText reads "20%" or "0.2".
func (s *Share) UnmarshalText(b []byte) error {
	text, percent := strings.CutSuffix(strings.TrimSpace(string(b)), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v >= 0 && v <= 1) {
		return fmt.Errorf("%q: write a share as 20%% or 0.2", b)
	}
	*s = Share(v)
	return nil
}

// MarshalText is what UnmarshalText reads.
func (s Share) MarshalText() ([]byte, error) {
	return []byte(strconv.FormatFloat(float64(s), 'g', -1, 64)), nil
}

// Over returns l with what s says.
func (s LinkSpec) Over(l emul.Link) (emul.Link, error) {
	if s.Latency != nil && s.RTT != nil {
		return l, errors.New("latency and rtt say the same: write one of them")
	}
	if s.Latency != nil {
		l.Latency = s.Latency.Std()
	}
	if s.RTT != nil {
		l.Latency = s.RTT.Std() / 2
	}
	if s.Jitter != nil {
		l.Jitter = s.Jitter.Std()
	}
	if s.Loss != nil {
		l.Loss = float64(*s.Loss)
	}
	if s.Rate != nil {
		l.Rate = int64(*s.Rate)
	}
	if s.Buffer != nil {
		l.Buffer = int64(*s.Buffer)
	}
	if s.Reorder != nil {
		l.Reorder = *s.Reorder
	}
	if s.Cut != nil {
		l.Cut = *s.Cut
	}
	return l, l.Validate()
}

// Roles of hosts.
const (
	RoleRoot    = "root"
	RoleCluster = "cluster"
	RoleWorker  = "worker"
	RoleNone    = "none"
)

// Kinds of address translation that a host may be behind.
const (
	// NATCone keeps the source port where it can, the same for all destinations:
	// two hosts behind such ones can find each other.
	NATCone = "cone"
	// NATRandom draws another port for each connection, as a symmetric one does.
	NATRandom = "random"
)

// Host of a lab.
type Host struct {
	// Role is root, cluster, worker or none ("" is none): what runs there.
	Role string `yaml:"role"`
	// Cluster of a worker; "" where there is one cluster only.
	Cluster string `yaml:"cluster"`
	// Location is its place in the matrix; "" is its own name if that is one.
	Location string `yaml:"location"`
	// NAT is what it is behind: cone, random or "" for nothing.
	NAT string `yaml:"nat"`
	// Uplink is what leaves it to all others together, 0 without limit; UplinkBuffer is
	// what may wait for that, 0 as of a link.
	Uplink       api.Bitrate `yaml:"uplink"`
	UplinkBuffer api.Bytes   `yaml:"uplink_buffer"`
	// Cores is how many of the machine's processors what runs there may use, 0 for
	// all. Hosts that say so get them in turns, and share them where there are fewer.
	Cores int `yaml:"cores"`
	// Flags of the process, after those that the lab gives.
	Flags []string `yaml:"flags"`
	// Later: a worker that does not start with the lab, but by Join.
	Later bool `yaml:"-"`
}

// maxFile bounds a lab file.
const maxFile = 1 << 20

var label = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)

// ReadFile reads a lab file; matrices are looked for beside it.
func ReadFile(path string) (File, error) {
	f, err := os.Open(path)
	if err != nil {
		return File{}, fmt.Errorf("lab file: %w", err)
	}
	defer func() { _ = f.Close() }() // nothing is lost by it
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(b) > maxFile {
		err = fmt.Errorf("it has more than %d bytes", maxFile)
	}
	if err != nil {
		return File{}, fmt.Errorf("lab file %s: %w", path, err)
	}
	out, err := Parse(b)
	if err != nil {
		return File{}, fmt.Errorf("lab file %s: %w", path, err)
	}
	if out.Name == "" {
		out.Name = strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	}
	if m := out.Links.Matrix; m != "" && !slices.Contains([]string{Cities, PlanetLab, EdgeSites}, m) && !filepath.IsAbs(m) {
		out.Links.Matrix = filepath.Join(filepath.Dir(path), m)
	}
	return out, out.Validate()
}

// Parse reads a lab file strictly. It does not look whether it makes sense.
func Parse(b []byte) (out File, err error) {
	dec := yaml.NewDecoder(bytes.NewReader(b))
	dec.KnownFields(true)
	if err := dec.Decode(&out); errors.Is(err, io.EOF) {
		return out, errors.New("it is empty")
	} else if err != nil {
		return out, err
	}
	var second yaml.Node
	if err := dec.Decode(&second); !errors.Is(err, io.EOF) {
		return out, errors.New("it has a second document: one file is one lab")
	}
	return out, nil
}

// Validate says what cannot be.
func (f File) Validate() error {
	if !label.MatchString(f.Name) || len(f.Name) > 20 {
		return fmt.Errorf("name %q: it must be small letters, digits and hyphens, at most 20", f.Name)
	}
	if len(f.Hosts) == 0 || len(f.Hosts) > emul.MaxPorts {
		return fmt.Errorf("%d hosts: there must be 1 to %d", len(f.Hosts), emul.MaxPorts)
	}
	roots := f.with(RoleRoot)
	if len(roots) > 1 {
		return fmt.Errorf("%s are roots: there can be one", strings.Join(roots, ", "))
	}
	for _, name := range slices.Sorted(maps.Keys(f.Hosts)) {
		if err := f.validHost(name); err != nil {
			return fmt.Errorf("host %s: %w", name, err)
		}
	}
	for _, p := range f.Links.Between {
		if len(p.Hosts) != 2 || p.Hosts[0] == p.Hosts[1] {
			return fmt.Errorf("links between %v: it takes two hosts", p.Hosts)
		}
		for _, h := range p.Hosts {
			if _, ok := f.Hosts[h]; !ok {
				return fmt.Errorf("links between %v: there is no host %q", p.Hosts, h)
			}
		}
	}
	if _, err := f.sites(f.Sites); err != nil {
		return err
	}
	_, err := f.links()
	return err
}

// sites by the numbers of hosts.
func (f File) sites(sites map[string]Site) (out []emul.Site, err error) {
	names, in := f.names(), map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(sites)) {
		s := sites[name]
		x := emul.Site{Up: int64(s.Up), Down: int64(s.Down), Buffer: int64(s.Buffer)}
		for _, rate := range []int64{x.Up, x.Down} {
			if err := (emul.Link{Rate: rate, Buffer: x.Buffer}).Validate(); err != nil {
				return nil, fmt.Errorf("site %s: %w", name, err)
			}
		}
		for _, h := range s.Hosts {
			i := slices.Index(names, h)
			if i < 0 {
				return nil, fmt.Errorf("site %s: there is no host %q", name, h)
			}
			if in[h] != "" {
				return nil, fmt.Errorf("host %s is in the sites %s and %s: it can be in one", h, in[h], name)
			}
			in[h] = name
			x.Ports = append(x.Ports, i)
		}
		out = append(out, x)
	}
	return out, nil
}

func (f File) validHost(name string) error {
	h := f.Hosts[name]
	if !label.MatchString(name) || len(name) > 40 {
		return errors.New("a name must be small letters, digits and hyphens, at most 40")
	}
	if !slices.Contains([]string{"", RoleRoot, RoleCluster, RoleWorker, RoleNone}, h.Role) {
		return fmt.Errorf("role %q: it must be root, cluster, worker or none", h.Role)
	}
	if !slices.Contains([]string{"", NATCone, NATRandom}, h.NAT) {
		return fmt.Errorf("nat %q: it must be cone or random", h.NAT)
	}
	if h.NAT != "" && (h.Role == RoleRoot || h.Role == RoleCluster) {
		return fmt.Errorf("a %s must be reached by others: it cannot be behind a NAT", h.Role)
	}
	if err := (emul.Link{Rate: int64(h.Uplink), Buffer: int64(h.UplinkBuffer)}).Validate(); err != nil {
		return fmt.Errorf("uplink: %w", err)
	}
	if n := runtime.NumCPU(); h.Cores < 0 || h.Cores > n {
		return fmt.Errorf("cores %d: it must be 0 (all) to %d, which this machine has", h.Cores, n)
	}
	if h.UplinkBuffer > 0 && h.Uplink == 0 {
		return errors.New("uplink_buffer is what waits for the uplink, of which nothing is said")
	}
	if h.Role == RoleCluster && len(f.with(RoleRoot)) == 0 {
		return errors.New("a cluster joins a root, and there is none")
	}
	if h.Role == RoleWorker {
		_, err := f.clusterOf(name)
		return err
	}
	if h.Cluster != "" {
		return errors.New("only a worker has a cluster")
	}
	if (h.Role == "" || h.Role == RoleNone) && len(h.Flags) > 0 {
		return errors.New("nothing runs there that could have flags")
	}
	return nil
}

// with lists the hosts of a role, in order.
func (f File) with(role string) (out []string) {
	for _, name := range slices.Sorted(maps.Keys(f.Hosts)) {
		if f.Hosts[name].Role == role {
			out = append(out, name)
		}
	}
	return out
}

// clusterOf a worker.
func (f File) clusterOf(worker string) (string, error) {
	all, c := f.with(RoleCluster), f.Hosts[worker].Cluster
	switch {
	case c == "" && len(all) == 1:
		return all[0], nil
	case c == "":
		return "", fmt.Errorf("say which cluster it belongs to; there are %d", len(all))
	case !slices.Contains(all, c):
		return "", fmt.Errorf("there is no cluster %q", c)
	}
	return c, nil
}

// names of the hosts in the order of their numbers.
func (f File) names() []string { return slices.Sorted(maps.Keys(f.Hosts)) }

// links that differ from the default, by the numbers of hosts.
func (f File) links() ([]emul.Set, error) {
	normal, err := f.Links.Default.Over(emul.Link{})
	if err != nil {
		return nil, fmt.Errorf("default link: %w", err)
	}
	names := f.names()
	table := map[[2]int]emul.Link{}
	if f.Links.Matrix != "" {
		m, err := ReadMatrix(f.Links.Matrix, ".")
		if err != nil {
			return nil, err
		}
		places, err := f.places(m, names)
		if err != nil {
			return nil, err
		}
		for i, a := range places {
			for j, b := range places {
				if i != j && a >= 0 && b >= 0 {
					l := normal
					l.Latency = m.link(a, b).Latency
					table[[2]int{i, j}] = l
				}
			}
		}
	}
	for _, p := range f.Links.Between {
		a, b := slices.Index(names, p.Hosts[0]), slices.Index(names, p.Hosts[1])
		for _, d := range [][2]int{{a, b}, {b, a}} {
			l, ok := table[d]
			if !ok {
				l = normal
			}
			if l, err = p.Over(l); err != nil {
				return nil, fmt.Errorf("link between %s and %s: %w", p.Hosts[0], p.Hosts[1], err)
			}
			table[d] = l
			if p.OneWay {
				break
			}
		}
	}
	var out []emul.Set
	for i := range names {
		for j := range names {
			if l, ok := table[[2]int{i, j}]; ok {
				out = append(out, emul.Set{From: i, To: j, Link: l})
			}
		}
	}
	return out, nil
}

// places of hosts in a matrix; -1 for none.
func (f File) places(m Matrix, names []string) ([]int, error) {
	out := make([]int, len(names))
	for i, name := range names {
		want := f.Hosts[name].Location
		out[i] = slices.IndexFunc(m.Places, func(p string) bool {
			return p == want || want == "" && strings.EqualFold(p, name)
		})
		if out[i] < 0 && want != "" {
			return nil, fmt.Errorf("host %s: the matrix has no place %q; it has %s", name, want, some(m.Places))
		}
	}
	return out, nil
}

// some of a list, for an error.
func some(list []string) string {
	const most = 15
	if len(list) > most {
		return strings.Join(list[:most], ", ") + ", …"
	}
	return strings.Join(list, ", ")
}

// Milliseconds of a duration, for tables.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
