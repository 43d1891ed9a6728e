package proxymity

import (
	"fmt"
	"math"
	"slices"

	"github.com/verge-edge/verge/internal/lab"
)

// localRTT is what the paper takes for the receiving node's own latency, in ms.
const localRTT = 3

// Shares is the rule of the paper, written down once more so that the policy is
// not compared with itself: w = (1-alpha)/N + alpha · f(l)/Σf(l), l in ms.
func Shares(rtt []float64, alpha, beta float64, decay string) []float64 {
	least := slices.Min(rtt)
	f := make([]float64, len(rtt))
	sum := 0.0
	for i, l := range rtt {
		switch decay {
		case "inverse":
			f[i] = 1 / (beta * l)
		case "power":
			f[i] = math.Pow(l, -beta)
		default:
			f[i] = math.Exp(-beta * (l - least))
		}
		sum += f[i]
	}
	for i := range f {
		f[i] = (1-alpha)/float64(len(f)) + alpha*f[i]/sum
	}
	return f
}

// cities is the matrix of the paper, in ms.
func cities() (places []string, rtt [][]float64, err error) {
	m, err := lab.ReadMatrix(lab.Cities, "")
	if err != nil {
		return nil, nil, err
	}
	for _, row := range m.RTT {
		ms := make([]float64, len(row))
		for j, d := range row {
			ms[j] = lab.Milliseconds(d)
		}
		rtt = append(rtt, ms)
	}
	return m.Places, rtt, nil
}

// within says that a measured value misses an expected one by more than a bound.
func within(measured, expected, bound float64, what string) string {
	if math.Abs(measured-expected) <= bound {
		return ""
	}
	return fmt.Sprintf("%.4g is not %.4g to within %s", measured, expected, what)
}
