package hostnet

import (
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/overlay/nstest"
)

func TestFilters(t *testing.T) {
	nstest.Need(t)
	for _, c := range []struct {
		name, rules string
		chain       string // that is in the way, "" for none
		remedy      string
	}{
		{"nothing", ``, "", ""},
		{"accepting", `table inet mine { chain f { type filter hook forward priority 0; policy accept; iifname "eth7" drop; }; }`, "", ""},
		{"of a worker", `table inet verge-abcde { chain forward { type filter hook forward priority 0; policy drop; }; }`, "", ""},
		{"docker", `table ip filter {
			chain DOCKER-USER { }
			chain FROM { accept; }
			chain FORWARD { type filter hook forward priority 0; policy drop; jump DOCKER-USER; iifname "docker0" jump FROM; oifname "docker0" ct state established accept; }
		}`, "FORWARD", `iptables -I DOCKER-USER -i vg+ -j ACCEPT; iptables -I DOCKER-USER -o vg+ -j ACCEPT`},
		{"docker, let through", `table ip filter {
			chain DOCKER-USER { iifname "vg*" accept; oifname "vg*" counter accept; }
			chain FORWARD { type filter hook forward priority 0; policy drop; jump DOCKER-USER; }
		}`, "", ""},
		{"half let through", `table ip6 filter { chain FORWARD { type filter hook forward priority 0; policy drop; iifname "vg*" accept; }; }`, "FORWARD", "ip6tables -I FORWARD -i vg+"},
		{"one device", `table ip filter { chain FORWARD { type filter hook forward priority 0; policy drop; iifname "vg" accept; oifname "vg" accept; }; }`, "FORWARD", ""},
		{"a server", `table inet filter { chain input { type filter hook input priority 0; policy drop; iif lo accept; tcp dport 22 accept; ct state established,related accept; }; }`, "input",
			`nft insert rule inet filter input iifname '"vg*"' accept`},
		{"a server, let through",
			`table inet filter { chain input { type filter hook input priority 0; policy drop; iifname "vg*" accept; }; }`, "", ""},
		{"refused at the end", `table inet firewalld {
			chain filter_FORWARD { type filter hook forward priority 10; policy accept; ct state established accept; iifname "lo" accept; reject with icmpx admin-prohibited; }
		}`, "filter_FORWARD", "firewall-cmd --permanent --zone=trusted --add-interface=vg+"},
		{"refused at the end, let through", `table inet firewalld {
			chain trusted { accept; }
			chain filter_FORWARD { type filter hook forward priority 10; policy accept; iifname "vg*" goto trusted; oifname "vg*" goto trusted; reject with icmpx admin-prohibited; }
		}`, "", ""},
		{"everything is let through",
			`table inet filter { chain forward { type filter hook forward priority 0; policy drop; counter accept; }; }`, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := nstest.New(t)
			if c.rules != "" {
				h.NFT(c.rules)
			}
			var got []Filter
			var err error
			h.Do(func() { got, err = Filters() })
			switch {
			case err != nil:
				t.Fatal(err)
			case c.chain == "" && len(got) > 0:
				t.Errorf("in the way: %v", got)
			case c.chain != "" && (len(got) != 1 || got[0].Chain != c.chain):
				t.Errorf("in the way: %v, want %s", got, c.chain)
			case c.chain != "" && !strings.HasPrefix(got[0].Remedy(), c.remedy):
				t.Errorf("remedy %q, want %q", got[0].Remedy(), c.remedy)
			}
		})
	}
}
