package cli

import (
	"strings"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/policy/place/turn"
)

func TestExplainSaysWhoseTurnItWas(t *testing.T) {
	for _, c := range []struct {
		turn *turn.Turn
		want string
	}{
		{nil, ""},
		{&turn.Turn{Group: "shop", Weight: 3, Share: 0.123456, Of: "memory", Service: 0.05, Groups: 4},
			"  its turn     namespace shop has 12.3 % of the memory by weight 3, by its weight the least of 4 " +
				"namespaces that wait; the service has 5 %"},
		{&turn.Turn{Group: "default", Weight: 1, Groups: 1},
			"  its turn     namespace default has 0 % by weight 1; the service has 0 %"},
	} {
		if got := strings.Join(turnLines(c.turn), "\n"); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

func TestExplainNamesTheConstraints(t *testing.T) {
	got := strings.Join(constraints(place.Request{
		Architecture: []string{"amd64", "arm64"},
		Location:     &api.Location{Latitude: 48.14, Longitude: 11.58, Radius: 20_000},
		Affinity: api.Affinity{Labels: map[string]string{"zone": "a", "disk": "ssd"},
			Polygon: make([]api.Point, 5)},
		AntiAffinity: api.AntiAffinity{Cluster: []string{"fog"}, Area: []string{"sea"},
			Labels: map[string]string{"gpu": "no"}, Service: []string{"db", "web"}},
		HostPaths: []string{"/srv/media"}, Pinned: "w1",
	}), "; ")
	want := "architecture amd64 or arm64; label disk=ssd; label zone=a; within 20km of 48.14,11.58; inside a polygon " +
		"of 5 corners; " +
		"not cluster fog; not area sea; not label gpu=no; not beside db or web; host path /srv/media; on w1, which " +
		"has its volume"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if c := constraints(place.Request{}); c != nil {
		t.Errorf("none: %v", c)
	}
}
