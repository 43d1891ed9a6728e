package hardware

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/verge-edge/verge/api"
)

// Bandwidth is what the network card of this machine's default route can carry, less
// the reserve (a fraction), both ways; zero where the card does not say. What lies
// behind it, such as a modem, only the operator knows.
func Bandwidth(reserve float64) api.Bandwidth { return bandwidthOf("/", reserve) }

func bandwidthOf(root string, reserve float64) api.Bandwidth {
	card := defaultCard(root)
	if card == "" {
		return api.Bandwidth{}
	}
	mbit, err := strconv.ParseInt(read(filepath.Join(root, "sys/class/net", card, "speed")), 10, 64)
	if err != nil || mbit <= 0 || mbit > int64(api.MaxBitrate)/1e6 { // -1: not known
		return api.Bandwidth{}
	}
	rate := api.Bitrate(float64(mbit)*1e3*(1-reserve)) * 1000 // whole kilobits, as people write it
	return api.Bandwidth{In: rate, Out: rate}
}

// defaultCard is the interface of the default route, for IPv4 or else IPv6.
func defaultCard(root string) string {
	for line := range strings.Lines(read(filepath.Join(root, "proc/net/route"))) {
		if f := strings.Fields(line); len(f) > 7 && f[1] == "00000000" && f[7] == "00000000" {
			return f[0]
		}
	}
	any6 := strings.Repeat("0", 32)
	for line := range strings.Lines(read(filepath.Join(root, "proc/net/ipv6_route"))) {
		if f := strings.Fields(line); len(f) == 10 && f[0] == any6 && f[1] == "00" && !slices.Contains([]string{"lo", ""}, f[9]) {
			return f[9]
		}
	}
	return ""
}
