package api

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/verge-edge/verge/api/internal/words"
	"github.com/verge-edge/verge/api/pattern"
)

var numberRE = pattern.Lazy(pattern.Number)

// Bounds of the two numbers of a point.
var PointBounds = [2]struct {
	name        string
	Least, Most float64
}{{"latitude", -90, 90}, {"longitude", -180, 180}}

// ParsePoint parses "48.14,11.58": latitude and longitude in degrees. The error
// says what to write instead.
func ParsePoint(s string) (Point, error) {
	var p Point
	lat, lon, found := strings.Cut(s, ",")
	for i, text := range []string{lat, lon} {
		b := PointBounds[i]
		x, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if !found || err != nil || !numberRE().MatchString(strings.TrimSpace(text)) {
			return p, &ValueError{words.Quote(s) + " is not a point", "write latitude,longitude in degrees: 48.14,11.58"}
		}
		if x < b.Least || x > b.Most {
			return p, &ValueError{fmt.Sprintf("the %s of %s is not between %g and %g", b.name, words.Quote(s), b.Least, b.Most),
				"write latitude,longitude in degrees"}
		}
		p[i] = x + 0 // no negative zero
	}
	return p, nil
}

// String writes p as ParsePoint reads it.
func (p Point) String() string {
	return strconv.FormatFloat(p[0], 'f', -1, 64) + "," + strconv.FormatFloat(p[1], 'f', -1, 64)
}
