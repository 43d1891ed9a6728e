package daemonflags

import (
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// relayFlags are those of a node that may be a relay.
func relayFlags(fl *pflag.FlagSet, r *wire.RelayConfig, ports *string) {
	fl.StringVar(&r.Listen, "relay", "",
		"be a relay for workers that cannot reach each other, at this address over TCP and UDP, for example :8475 "+
			"(default: no relay)")
	fl.StringVar(ports, "relay-ports", "", "UDP ports that the relay uses, FIRST-LAST (default: any free ones)")
	fl.TextVar(&r.Rate, "relay-rate", api.Bitrate(0),
		"limit of what two workers send each other through the relay, as 10Mbps (0: none)")
}

// settleRelay reads and checks what relayFlags got.
func settleRelay(r *wire.RelayConfig, ports string) (err error) {
	if r.Ports, err = portRange("--relay-ports", ports); err != nil {
		return err
	}
	if r.Listen != "" {
		return address("--relay", r.Listen)
	}
	if ports != "" || r.Rate != 0 {
		return errMustBe("--relay", `""`, "given with --relay-ports and --relay-rate")
	}
	return nil
}

// portRange reads the value of a flag, zero where it is not set.
func portRange(flag, value string) (r [2]uint16, err error) {
	if value == "" {
		return r, nil
	}
	first, last, ok := strings.Cut(value, "-")
	for i, s := range []string{first, last} {
		n, err := strconv.ParseUint(s, 10, 16)
		if err != nil || n == 0 || !ok {
			return r, errMustBe(flag, strconv.Quote(value), "two ports as 40000-40999")
		}
		r[i] = uint16(n)
	}
	if r[0] > r[1] {
		return r, errMustBe(flag, strconv.Quote(value), "a range whose first port is not above its last")
	}
	return r, nil
}
