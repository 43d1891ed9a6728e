package health

import (
	"strings"
	"testing"
)

func TestListening(t *testing.T) {
	const head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
	line := func(addr, state string) string {
		return "   0: " + addr + " 00000000:0000 " + state +
			" 00000000:00000000 00:00000000 00000000     0        0 1 1\n"
	}
	for _, c := range []struct {
		name, list    string
		looped, other bool
	}{
		{"nothing", head, false, false},
		{"loopback", head + line("0100007F:0050", "0A"), true, false},
		{"loopback of IPv6", head + line("00000000000000000000000001000000:0050", "0A"), true, false},
		{"a connection", head + line("0100007F:0050", "01"), false, false},
		{"another port", head + line("0100007F:0051", "0A"), false, false},
		{"all", head + line("00000000:0050", "0A"), false, true},
		{"all of IPv6", head + line("00000000000000000000000000000000:0050", "0A"), false, true},
		{"both", head + line("0100007F:0050", "0A") + line("0202A8C0:0050", "0A"), true, true},
	} {
		if looped, other := listening(strings.NewReader(c.list), 80); looped != c.looped || other != c.other {
			t.Errorf("%s: %t, %t", c.name, looped, other)
		}
	}
}
