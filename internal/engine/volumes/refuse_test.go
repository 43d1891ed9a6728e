package volumes

import (
	"strings"
	"testing"

	"github.com/verge-edge/verge/api"
)

func TestVolumesThatCannotBeGiven(t *testing.T) {
	t.Parallel()
	const noRoot = "the worker does not run as root"
	for name, c := range map[string]struct {
		volume    api.Volume
		hostPaths []string
		noMount   string
		want      string // what the refusal says, "" is none
	}{
		"named": {volume: api.Volume{Path: "d", Name: "data"}, noMount: noRoot},
		"named, read-only": {volume: api.Volume{Path: "d", Name: "data", ReadOnly: true}, noMount: noRoot,
			want: "volume d: read_only has to be mounted, which this worker may not: " + noRoot},
		"named, read-only, root": {volume: api.Volume{Path: "d", Name: "data", ReadOnly: true}},
		"in memory": {volume: api.Volume{Path: "d", Tmpfs: 1}, noMount: noRoot,
			want: "a directory in memory has to be mounted, which this worker may not: " + noRoot},
		"in memory, root": {volume: api.Volume{Path: "d", Tmpfs: 1}},
		"host, none allowed": {volume: api.Volume{Path: "d", Host: "/srv/x"},
			want: "volume d: this worker gives no directory of its own to instances"},
		"host, allowed": {volume: api.Volume{Path: "d", Host: "/srv/x"},
			hostPaths: []string{"/opt", "/srv/"}},
		"host, itself":             {volume: api.Volume{Path: "d", Host: "/srv"}, hostPaths: []string{"/srv"}},
		"host, everything allowed": {volume: api.Volume{Path: "d", Host: "/srv/x"}, hostPaths: []string{"/"}},
		"host, beside it": {volume: api.Volume{Path: "d", Host: "/srv2/x"},
			hostPaths: []string{"/opt", "/srv"},
			want: "/srv2/x is not below a directory that this worker gives to instances " +
				"(--allow-host-path): /opt, /srv"},
	} {
		got := Refuses(&api.Service{Volumes: []api.Volume{c.volume}}, c.hostPaths, c.noMount)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
