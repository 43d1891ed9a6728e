package daemon

import (
	"net/netip"
	"testing"
)

func TestPickNetworkAvoidsRoutes(t *testing.T) {
	p := func(s ...string) (list []netip.Prefix) {
		for _, x := range s {
			list = append(list, netip.MustParsePrefix(x))
		}
		return list
	}
	for _, c := range []struct {
		first uint32
		taken []netip.Prefix
		want  string
	}{
		{0, nil, "198.18.0.1/20"},
		{0x74eaa, nil, "198.18.160.1/20"}, // 0x74eaa modulo 32 is 10
		{31, nil, "198.19.240.1/20"},
		{31, p("198.19.255.7/32"), "198.18.0.1/20"},
		{0, p("198.18.0.0/16", "10.0.0.0/8"), "198.19.0.1/20"},
		{3, p("198.18.0.0/15"), ""},
	} {
		got, err := pickNetwork(c.first, c.taken)
		if (err == nil) != (c.want != "") || err == nil && got.String() != c.want {
			t.Errorf("from %d without %v: %s, %v, want %s", c.first, c.taken, got, err, c.want)
		}
	}
}
