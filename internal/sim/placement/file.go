package placement

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"strings"

	"go.yaml.in/yaml/v4" // what the project reads its files with: strict, errors with lines

	"github.com/verge-edge/verge/api"
)

// Bounds of a file, and of what it describes.
const (
	maxFile      = 1 << 20
	maxWorkers   = 100_000
	maxInstances = 100_000
	maxSpeed     = 1000
)

// File describes a scenario.
type File struct {
	Name     string        `yaml:"name"`
	Workers  []FileWorker  `yaml:"workers"`
	Services []FileService `yaml:"services"`
}

// FileWorker is a group of identical workers.
type FileWorker struct {
	Name    string    `yaml:"name"`
	Count   *int      `yaml:"count"` // nil: one
	Cluster string    `yaml:"cluster"`
	CPU     api.CPU   `yaml:"cpu"`
	Memory  api.Bytes `yaml:"memory"`
	// Speed of a core, nil: 1.
	Speed *float64 `yaml:"speed"`
	// Location is latitude,longitude; "" is not known.
	Location string `yaml:"location"`
}

// FileService is a service to be placed.
type FileService struct {
	Name     string     `yaml:"name"` // "application.service"
	Replicas *int       `yaml:"replicas"`
	CPU      api.CPU    `yaml:"cpu"`
	Memory   api.Bytes  `yaml:"memory"`
	Near     []FileNear `yaml:"near"`
}

// FileNear is a service that it must be near.
type FileNear struct {
	To     string       `yaml:"to"`
	Within api.Duration `yaml:"within"`
}

// Load returns the scenario of a data set (continuum, openb, planetlab) or of a file.
func Load(name string, seed uint64) (*Scenario, error) {
	switch name {
	case "continuum":
		return Continuum(seed)
	case "openb":
		return OpenB(1, true, seed)
	case "planetlab":
		return PlanetLab(0.5, seed)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read an infrastructure: %w (or name one of the data: continuum, openb, planetlab)", err)
	}
	defer func() { _ = f.Close() }() // nothing is lost by it
	s, err := Read(f, seed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}

// Read reads a file strictly: unknown, impossible and excessive values are errors.
func Read(r io.Reader, seed uint64) (*Scenario, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxFile {
		return nil, fmt.Errorf("it is larger than %d bytes: write workers that are alike once, with a count", maxFile)
	}
	dec := yaml.NewDecoder(bytes.NewReader(b))
	dec.KnownFields(true)
	var f File
	if err := dec.Decode(&f); errors.Is(err, io.EOF) {
		return nil, errors.New("it is empty: it needs workers and services")
	} else if err != nil {
		return nil, err
	}
	var second yaml.Node
	if err := dec.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, errors.New("it has a second document: one file is one infrastructure")
	}
	s, err := f.scenario()
	if err != nil {
		return nil, err
	}
	if s.RTT != nil {
		s.requested(rand.New(rand.NewPCG(seed, 9)))
	}
	return s, nil
}

// count is an optional number, 1 by default.
func count(n *int, what string, most int) (int, error) {
	if n == nil {
		return 1, nil
	}
	if *n < 1 || *n > most {
		return 0, fmt.Errorf("%s is %d: 1 to %d can be simulated", what, *n, most)
	}
	return *n, nil
}

func (f *File) scenario() (*Scenario, error) {
	s := &Scenario{Name: f.Name}
	var points []api.Point
	located := false
	for i, w := range f.Workers {
		what := fmt.Sprintf("workers[%d]", i)
		n, err := count(w.Count, what+".count", maxWorkers-len(s.Workers))
		if err != nil {
			return nil, err
		}
		speed := 1.0
		if w.Speed != nil {
			speed = *w.Speed
		}
		switch {
		case w.CPU <= 0 || w.Memory <= 0:
			return nil, fmt.Errorf("%s needs cpu and memory", what)
		case !(speed > 0 && speed <= maxSpeed):
			return nil, fmt.Errorf("%s.speed is %g: more than 0, at most %d", what, speed, maxSpeed)
		}
		at := api.Point{math.NaN()}
		if w.Location != "" {
			if at, err = api.ParsePoint(w.Location); err != nil {
				return nil, fmt.Errorf("%s.location: %w", what, err)
			}
			located = true
		}
		for k := range n {
			x := worker(len(s.Workers), 0, 0)
			x.Capacity = api.Resources{CPU: w.CPU, Memory: w.Memory}
			x.Cluster, x.Site, x.Speed = w.Cluster, len(points), speed
			if w.Name != "" {
				x.ID = fmt.Sprintf("%s-%d", w.Name, k+1)
			}
			if w.Location != "" {
				x.Location = &at
			}
			s.Workers = append(s.Workers, x)
		}
		points = append(points, at)
	}
	names := map[string]bool{}
	for i := range s.Workers {
		if id := s.Workers[i].ID; names[id] {
			return nil, fmt.Errorf("two workers are called %s: give one of the groups another name", id)
		}
		names[s.Workers[i].ID] = true
	}
	if s.Sites = len(points); located {
		s.RTT = func(a, b int) float64 { return roundTrip(points[a], points[b]) }
	}
	if err := f.services(s); err != nil {
		return nil, err
	}
	if len(s.Workers) == 0 || len(s.Services) == 0 {
		return nil, errors.New("it needs workers and services")
	}
	return s, nil
}

func (f *File) services(s *Scenario) error {
	left, named := maxInstances, map[string]bool{}
	for _, v := range f.Services {
		named[v.Name] = true
	}
	if len(named) < len(f.Services) {
		return errors.New("two services have the same name")
	}
	for i, v := range f.Services {
		what := fmt.Sprintf("services[%d]", i)
		n, err := count(v.Replicas, what+".replicas", min(left, api.MaxReplicas))
		if err != nil {
			return err
		}
		left -= n
		if app, name, ok := strings.Cut(v.Name, "."); !ok || app == "" || name == "" {
			return fmt.Errorf("%s.name is %q: write application.service", what, v.Name)
		}
		if v.CPU <= 0 || v.Memory <= 0 {
			return fmt.Errorf("%s needs cpu and memory", what)
		}
		x := Service{Name: v.Name, Replicas: n, Demand: api.Resources{CPU: v.CPU, Memory: v.Memory}}
		for _, near := range v.Near {
			if !named[near.To] || near.Within <= 0 {
				return fmt.Errorf("%s.near: to is a service of the file and within a time, such as 20ms", what)
			}
			x.Near = append(x.Near, Near{To: near.To, Within: float64(near.Within.Std().Microseconds()) / 1e3})
		}
		s.Services = append(s.Services, x)
	}
	return nil
}

// Round trips between places: ms per kilometre of the great circle on Internet paths, and what the
// rest adds.
const (
	msPerKm   = 0.02
	msAtLeast = 0.5
)

// roundTrip of two places in ms; half around the world if one is unknown.
func roundTrip(a, b api.Point) float64 {
	if a == b {
		return msAtLeast
	}
	km := 20_000.0
	if !math.IsNaN(a[0]) && !math.IsNaN(b[0]) {
		const rad = math.Pi / 180
		la, lo := math.Sin((b[0]-a[0])*rad/2), math.Sin((b[1]-a[1])*rad/2)
		km = 2 * 6371 * math.Asin(math.Sqrt(min(1, la*la+math.Cos(a[0]*rad)*math.Cos(b[0]*rad)*lo*lo)))
	}
	return msAtLeast + msPerKm*km
}

// Clusters says whether the workers are in more than one cluster.
func (s *Scenario) Clusters() bool {
	for i := range s.Workers {
		if s.Workers[i].Cluster != s.Workers[0].Cluster {
			return true
		}
	}
	return false
}
