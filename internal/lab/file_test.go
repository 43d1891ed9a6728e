package lab

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/lab/emul"
)

const threeHosts = `
name: three
seed: 5
links:
  matrix: cities
  default: {latency: 5ms, loss: 1%}
  between:
    - {hosts: [a, c], rtt: 30ms, jitter: 2ms, rate: 10Mbps, buffer: 64Ki, loss: 0.5, reorder: true}
    - {hosts: [c, b], latency: 1ms, cut: true, one_way: true}
hosts:
  a: {location: London}
  b: {location: Paris}
  c: {nat: random}
`

func TestLinksOfAFile(t *testing.T) {
	f, err := Parse([]byte(threeHosts))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Validate(); err != nil {
		t.Fatal(err)
	}
	got, err := f.links()
	if err != nil {
		t.Fatal(err)
	}
	own := emul.Link{Latency: 15 * time.Millisecond, Jitter: 2 * time.Millisecond, Rate: 10e6, Buffer: 64 << 10, Loss: 0.5, Reorder: true}
	want := []emul.Set{
		{From: 0, To: 1, Link: emul.Link{Latency: 2 * time.Millisecond, Loss: 0.01}}, // London to Paris: 4 ms both ways
		{From: 0, To: 2, Link: own},
		{From: 1, To: 0, Link: emul.Link{Latency: 2 * time.Millisecond, Loss: 0.01}},
		{From: 2, To: 0, Link: own},
		{From: 2, To: 1, Link: emul.Link{Latency: time.Millisecond, Loss: 0.01, Cut: true}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("links\n%+v, want\n%+v", got, want)
	}
	// What is noted in the lab's directory is the same file.
	b, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	var again File
	if err := json.Unmarshal(b, &again); err != nil {
		t.Fatal(err)
	}
	if l, err := again.links(); err != nil || !reflect.DeepEqual(l, want) {
		t.Errorf("after it was noted: %+v, %v", l, err)
	}
}

func TestBadFiles(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "empty",
		"name: a\nhosts: {x: {}}\nhost: {}": "host",
		"name: A\nhosts: {x: {}}":           "small letters",
		"name: a":                           "0 hosts",
		"name: a\nhosts: {X: {}}":           "small letters",
		"name: a\nhosts: {x: {role: king}}": "must be root, cluster",
		"name: a\nhosts: {x: {role: root}, y: {role: root}}":                                           "can be one",
		"name: a\nhosts: {x: {role: cluster}}":                                                         "joins a root",
		"name: a\nhosts: {x: {role: worker}}":                                                          "which cluster",
		"name: a\nhosts: {x: {nat: wide}}":                                                             "cone or random",
		"name: a\nhosts: {x: {role: root, nat: cone}}":                                                 "behind a NAT",
		"name: a\nhosts: {x: {uplink: 200Gbps}}":                                                       "uplink: rate",
		"name: a\nhosts: {x: {uplink_buffer: 64Ki}}":                                                   "of which nothing is said",
		"name: a\nhosts: {x: {cores: -1}}":                                                             "cores -1",
		"name: a\nhosts: {x: {cores: 100000}}":                                                         "this machine has",
		"name: a\nhosts: {x: {}}\nsites: {s: {hosts: [y]}}":                                            "no host \"y\"",
		"name: a\nhosts: {x: {}}\nsites: {s: {hosts: [x]}, t: {hosts: [x]}}":                           "can be in one",
		"name: a\nhosts: {x: {}}\nsites: {s: {up: 200Gbps}}":                                           "site s: rate",
		"name: a\nhosts: {x: {flags: [-v]}}":                                                           "nothing runs",
		"name: a\nlinks: {matrix: cities}\nhosts: {x: {location: Rome}}":                               "no place \"Rome\"",
		"name: a\nlinks: {matrix: nowhere.csv}\nhosts: {x: {}}":                                        "nowhere.csv",
		"name: a\nlinks: {default: {loss: 120%}}\nhosts: {x: {}}":                                      "share",
		"name: a\nlinks: {default: {latency: 2m}}\nhosts: {x: {}}":                                     "latency",
		"name: a\nlinks: {default: {latency: 2ms, rtt: 4ms}}\nhosts: {x: {}}":                          "one of them",
		"name: a\nlinks: {between: [{hosts: [x, z], latency: 2ms}]}\nhosts: {x: {}, y: {}}":            "no host \"z\"",
		"name: a\nlinks: {between: [{hosts: [x], latency: 2ms}]}\nhosts: {x: {}, y: {}}":               "two hosts",
		"name: a\nhosts: {x: {}}\n---\nname: b":                                                        "second document",
		"name: a\nhosts: {r: {role: root}, c: {role: cluster}, w: {role: worker, cluster: elsewhere}}": "no cluster",
	} {
		f, err := Parse([]byte(text))
		if err == nil {
			err = f.Validate()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestMatrices(t *testing.T) {
	for name, places := range map[string]int{Cities: 11, PlanetLab: 60, EdgeSites: 125} {
		m, err := ReadMatrix(name, "")
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Places) != places {
			t.Errorf("%s has %d places, want %d", name, len(m.Places), places)
		}
		for i := range m.RTT {
			for j, d := range m.RTT[i] {
				if d <= 0 || d > 10*time.Second {
					t.Errorf("%s: %s to %s is %v", name, m.Places[i], m.Places[j], d)
				}
			}
		}
	}
	file := filepath.Join(t.TempDir(), "m.csv")
	for text, want := range map[string]string{
		",a,b\na,0,1\nb,1,0\n":   "",
		",a,b\na,0,1\n":          "columns",
		",a,b\nb,0,1\na,1,0\n":   "order",
		",a,a\na,0,1\na,1,0\n":   "twice",
		",a,b\na,0,x\nb,1,0\n":   "milliseconds",
		",a,b\na,0,-1\nb,1,0\n":  "milliseconds",
		",a,b\na,0,NaN\nb,1,0\n": "milliseconds",
		"":                       "rows",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := ReadMatrix("m.csv", filepath.Dir(file))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestGreatCircle(t *testing.T) {
	// London to New York is 5,570 km.
	got := GreatCircle(51.5, -0.1, 40.7, -74)
	if want := 1 + 2*1.5*5570/200.0; math.Abs(Milliseconds(got)-want) > 1 {
		t.Errorf("%v, want about %.0f ms", got, want)
	}
	if got := GreatCircle(1, 2, 1, 2); got != time.Millisecond {
		t.Errorf("a place is %v from itself", got)
	}
}

func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../../examples/lab/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		if _, err := ReadFile(f); err != nil {
			t.Error(err)
		}
	}
}
