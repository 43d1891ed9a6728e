package placement

import (
	"strings"
	"testing"
)

const sites = `name: two-sites
workers:
  - {name: edge, count: 4, cluster: north, cpu: 2, memory: 4Gi, speed: 0.5, location: "48.1,11.6"}
  - {name: cloud, count: 2, cluster: south, cpu: 16, memory: 64Gi, location: "50.1,8.7"}
services:
  - {name: shop.db, cpu: 1, memory: 2Gi}
  - {name: shop.web, replicas: 6, cpu: 500m, memory: 256Mi, near: [{to: shop.db, within: 20ms}]}
`

func TestFile(t *testing.T) {
	s, err := Read(strings.NewReader(sites), 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Workers) != 6 || s.Workers[4].ID != "cloud-1" || !s.Clusters() || len(s.Services) != 2 ||
		s.Services[1].Near[0].Within != 20 {
		t.Errorf("%+v", s)
	}
	// Munich to Frankfurt is 300 km.
	if d := s.RTT(0, 1); d < 6 || d > 7 {
		t.Errorf("%g ms", d)
	}
	for _, by := range Schedulers() {
		r, err := Run(t.Context(), s, by)
		if err != nil {
			t.Fatal(err)
		}
		if q := Measure(r); q.Placed != 1 || q.Violated != 0 || !(q.Expected > 0) {
			t.Errorf("%s: %+v", by.Name, q)
		}
	}
}

func TestFileIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "empty",
		"workers: []\nservices: []": "needs workers and services",
		sites + "\nmore: 1":         "more",
		sites + "\n---\nname: x":    "second document",
		strings.Replace(sites, "count: 4", "count: 100001", 1):    "1 to 100000",
		strings.Replace(sites, "count: 4", "count: 0", 1):         "1 to 100000",
		strings.Replace(sites, "speed: 0.5", "speed: .nan", 1):    "speed",
		strings.Replace(sites, "speed: 0.5", "speed: -1", 1):      "speed",
		strings.Replace(sites, "48.1,11.6", "98.1,11.6", 1):       "latitude",
		strings.Replace(sites, "memory: 4Gi, ", "", 1):            "needs cpu and memory",
		strings.Replace(sites, "name: cloud", "name: edge", 1):    "two workers",
		strings.Replace(sites, "to: shop.db", "to: shop.no", 1):   "a service of the file",
		strings.Replace(sites, "name: shop.db", "name: shop", 1):  "application.service",
		strings.Replace(sites, "replicas: 6", "replicas: 1e9", 1): "",
		strings.Repeat("#", maxFile+1):                            "larger than",
	} {
		if _, err := Read(strings.NewReader(text), 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %q", text, err, want)
		}
	}
}
