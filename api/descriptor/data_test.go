package descriptor

import (
	"slices"
	"strings"
	"testing"

	"github.com/verge-edge/verge/api"
)

// What is read is an object by its name or a host by its URL, and nothing else.
func TestDataIsObjectsAndHosts(t *testing.T) {
	s := api.Service{Data: []string{
		"models/cats.onnx", "data.csv", "https://data.example.org/file?x=1", "http://data.example.org:8080/", "postgres://db.example.org:5432/shop",
		"ftp://192.0.2.7", "https://[2001:db8::1]/",
	}}
	if want := []string{"models/cats.onnx", "data.csv"}; !slices.Equal(s.DataObjects(), want) {
		t.Errorf("objects %q, want %q", s.DataObjects(), want)
	}
	want := []string{"data.example.org:443", "data.example.org:8080", "db.example.org:5432", "192.0.2.7", "[2001:db8::1]:443"}
	if !slices.Equal(s.DataHosts(), want) {
		t.Errorf("hosts %q, want %q", s.DataHosts(), want)
	}
	for entry, says := range map[string]string{
		"/srv/cats": "is neither the name of an object nor a URL", "a..b": "is neither the name of an object nor a URL", "cats and dogs": "is neither",
		"https://root:s3cret@data.example.org/": "is no URL of a host that workers can measure", "https://localhost/": "is no URL", "https://": "is no URL",
		"https://data.example.org:99999/": "is no URL", "https://data.example.org:0/": "is no URL",
	} {
		if api.IsObjectName(entry) || api.DataHost(entry) != "" {
			t.Errorf("%q is taken for one", entry)
		}
		_, _, err := Parse("f", []byte(source("data: ['"+entry+"']")))
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v, want %q", entry, err, says)
		}
	}
	if _, _, err := Parse("f", []byte(source("data: [cats, cats]"))); err == nil || !strings.Contains(err.Error(), "is listed twice") {
		t.Errorf("twice: %v", err)
	}
}
