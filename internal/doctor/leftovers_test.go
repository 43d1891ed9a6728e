package doctor

import (
	"errors"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/leftover"
)

func TestLeftovers(t *testing.T) {
	gone := leftover.Worker{Dir: "/srv/gone",
		Items: []leftover.Item{{Kind: leftover.Process}, {Kind: leftover.Process}, {Kind: leftover.Table}}}
	stopped := leftover.Worker{Dir: "/srv/stopped", Intact: true, Items: []leftover.Item{{Kind: leftover.Mount}}}
	f := the(t, leftovers([]leftover.Worker{gone}, nil), checkLeftovers)
	if f.Status != Warn || !strings.Contains(f.Detail,
		"/srv/gone, which was removed, has left 2 processes, 1 nftables table") ||
		!strings.Contains(f.Remedy, "verge worker clean") {
		t.Errorf("%+v", f)
	}
	f = the(t, leftovers([]leftover.Worker{stopped}, nil), checkLeftovers)
	if f.Status != Note || !strings.Contains(f.Remedy, "verge worker stop --data-dir /srv/stopped") {
		t.Errorf("%+v", f)
	}
	f = the(t, leftovers(nil, errors.New("no rights")), checkLeftovers)
	if f.Status != Note || !strings.Contains(f.Detail, "no rights") {
		t.Errorf("%+v", f)
	}
	if f = the(t, leftovers(nil, nil), checkLeftovers); f.Status != OK {
		t.Errorf("%+v", f)
	}
}
