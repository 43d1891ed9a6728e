package api

import (
	"strconv"
	"strings"

	"github.com/verge-edge/verge/api/internal/words"
	"github.com/verge-edge/verge/api/pattern"
)

// Percent is a share, in hundredths of a percent. It is written "5%" or "0.5%".
type Percent int64

// AllPercent is all of something.
const AllPercent Percent = 100_00

var percentRE = pattern.Lazy(`^(0|[1-9][0-9]{0,2})(\.[0-9]{1,2})?%$`)

// ParsePercent parses "5%" or "0.25%", at most 100%. The error says what to write instead.
func ParsePercent(s string) (Percent, error) {
	m := percentRE().FindStringSubmatch(s)
	if m == nil {
		return 0, &ValueError{words.Quote(s) + " is not a share", "write 5%, or 0.25%"}
	}
	whole, _ := strconv.Atoi(m[1]) // three digits
	part, _ := strconv.Atoi((strings.TrimPrefix(m[2], ".") + "00")[:2])
	p := Percent(whole*100 + part)
	if p > AllPercent {
		return 0, &ValueError{words.Quote(s) + " is more than all", "write at most 100%"}
	}
	return p, nil
}

// Of is the share as a part of 1.
func (p Percent) Of() float64 { return float64(p) / float64(AllPercent) }

// String writes p as in a descriptor.
func (p Percent) String() string {
	if p%100 == 0 {
		return strconv.FormatInt(int64(p/100), 10) + "%"
	}
	return strings.TrimRight(strconv.FormatFloat(float64(p)/100, 'f', 2, 64), "0") + "%"
}

// MarshalText writes p as in a descriptor.
func (p Percent) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (p *Percent) UnmarshalText(b []byte) (err error) { *p, err = ParsePercent(string(b)); return err }
