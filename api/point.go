package api

import (
	"fmt"
	"strconv"
	"strings"
)

// ParsePoint parses "48.14,11.58": latitude and longitude in degrees. The error
// says what to write instead.
func ParsePoint(s string) (Point, error) {
	var p Point
	lat, lon, found := strings.Cut(s, ",")
	for i, text := range []string{lat, lon} {
		b := pointBounds[i]
		x, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if !found || err != nil || !numberRE().MatchString(strings.TrimSpace(text)) {
			return p, &amountError{quote(s) + " is not a point", "write latitude,longitude in degrees: 48.14,11.58"}
		}
		if x < b.least || x > b.most {
			return p, &amountError{fmt.Sprintf("the %s of %s is not between %g and %g", b.name, quote(s), b.least, b.most), "write latitude,longitude in degrees"}
		}
		p[i] = x + 0 // no negative zero
	}
	return p, nil
}

// String writes p as ParsePoint reads it.
func (p Point) String() string {
	return strconv.FormatFloat(p[0], 'f', -1, 64) + "," + strconv.FormatFloat(p[1], 'f', -1, 64)
}
