package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// hop is a part of an answer of the example boutique.
type hop struct {
	Service, Instance, Cluster, Worker, Error string
	TookUS                                    int64 `json:"took_us"`
	Calls                                     []hop
}

// TestBoutique runs the example of an online shop over three clusters: a request
// that enters at the load generator travels each of its sixteen calls.
func TestBoutique(t *testing.T) {
	t.Parallel()
	if out, err := exec.Command("go", "build", "-o", filepath.Join(programs.dir, "boutique"), "../examples/boutique/service").CombinedOutput(); err != nil {
		t.Fatalf("building the program: %v\n%s", err, out)
	}
	w := newWorld(t, 2, "edge", "fog", "cloud")
	source := must[[]byte](t)(os.ReadFile("../examples/boutique/verge.yaml"))
	w.root.apply(string(source))

	var tree hop
	eventually(t, 10*time.Second, "a request travels through the shop", func() error {
		text, err := fetch(w.worker["edge-1"].gateway, "boutique.localhost", "/")
		if err == nil {
			tree = hop{}
			err = json.Unmarshal([]byte(text), &tree)
		}
		return err
	})
	wantEqual(t, "service that a request enters at", tree.Service, "loadgenerator")

	top := decode[struct{ Edges [][2]string }](t, string(must[[]byte](t)(os.ReadFile("../examples/boutique/testdata/online-boutique.json"))))
	wanted, travelled := map[[2]string]bool{}, map[[2]string]bool{}
	for _, e := range top.Edges {
		wanted[e] = true
	}
	instances, clusters := w.root.instances("boutique"), map[string]bool{}
	wantEqual(t, "instances", len(instances), 12)
	var walk func(h hop)
	walk = func(h hop) {
		clusters[h.Cluster] = true
		if i, known := instances[h.Instance]; !known || i.Cluster != h.Cluster || h.Error != "" || h.TookUS <= 0 {
			t.Errorf("%s answers as %s in %s after %d µs, error %q", h.Service, h.Instance, h.Cluster, h.TookUS, h.Error)
		}
		for _, c := range h.Calls {
			travelled[[2]string{h.Service, c.Service}] = true
			if c.TookUS > h.TookUS {
				t.Errorf("%s took %d µs, and %s, which it waited for, %d µs", h.Service, h.TookUS, c.Service, c.TookUS)
			}
			walk(c)
		}
	}
	walk(tree)
	wantEqual(t, "calls of the shop", len(wanted), 16)
	if !maps.Equal(travelled, wanted) {
		t.Errorf("travelled %v, want %v", travelled, wanted)
	}
	wantEqual(t, "clusters that took part", fmt.Sprint(slices.Sorted(maps.Keys(clusters))), "[cloud edge fog]")
}
