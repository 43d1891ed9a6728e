package amount

import (
	"math"
	"strconv"

	"github.com/verge-edge/verge/api"
)

// Needed writes an amount of resource j for people: exactly where a unit allows, else rounded up to a
// tenth. Available rounds down, so that a shortage never reads like a fit.
func Needed(j int, n int64) string { return amount(j, n, math.Ceil) }

// Available formats a free amount, see Needed.
func Available(j int, n int64) string { return amount(j, n, math.Floor) }

func amount(j int, n int64, round func(float64) float64) string {
	n = max(0, n)
	switch j {
	case CPU:
		return api.CPU(n).String()
	case GPU, TPU:
		return api.Units(n).String()
	case In, Out:
		return bits(n, round)
	}
	for i, unit := range [...]string{"Ti", "Gi", "Mi", "Ki"} {
		size := int64(1) << (10 * (4 - i))
		if n < size {
			continue
		}
		if tenths := float64(n) / float64(size) * 10; n%(size>>10) != 0 || tenths == math.Trunc(tenths) {
			return strconv.FormatFloat(round(tenths)/10, 'f', -1, 64) + unit
		}
		break // the next smaller unit is exact
	}
	return api.Bytes(n).String()
}

// bits is amount for a bandwidth, in powers of 1000.
func bits(n int64, round func(float64) float64) string {
	for _, u := range [...]struct {
		name string
		size int64
	}{{"Gbps", 1e9}, {"Mbps", 1e6}, {"kbps", 1e3}} {
		if n < u.size {
			continue
		}
		if tenths := float64(n) / float64(u.size) * 10; n%(u.size/1000) != 0 || tenths == math.Trunc(tenths) {
			return strconv.FormatFloat(round(tenths)/10, 'f', -1, 64) + u.name
		}
		break
	}
	return api.Bitrate(n).String()
}
