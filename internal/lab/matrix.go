package lab

import (
	"embed"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/lab/emul"
)

//go:embed data/*.csv
var data embed.FS

// Matrix is round trip times between places.
type Matrix struct {
	Places []string
	RTT    [][]time.Duration // [from][to]; the diagonal is within a place
}

// Names of the matrices that come with the lab.
const (
	Cities    = "cities"     // eleven European cities
	PlanetLab = "planetlab"  // sixty hosts of universities, all over the world
	EdgeSites = "edge-sites" // base stations in Melbourne, by great circle
)

// maxMatrix bounds a matrix file; a thousand places need less.
const maxMatrix = 32 << 20

// ReadMatrix returns the matrix of that name, or that of a CSV file: a head row
// and a first column with the names of places in the same order, round trip times
// in milliseconds. A relative path starts at dir.
func ReadMatrix(name, dir string) (Matrix, error) {
	switch name {
	case Cities, PlanetLab:
		b, err := data.ReadFile("data/" + name + ".csv")
		if err != nil {
			return Matrix{}, err
		}
		return parseMatrix(strings.NewReader(string(b)))
	case EdgeSites:
		b, err := data.ReadFile("data/sites.csv")
		if err != nil {
			return Matrix{}, err
		}
		return parseSites(strings.NewReader(string(b)))
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	f, err := os.Open(name)
	if err != nil {
		return Matrix{}, fmt.Errorf("matrix: %w: give a file, or %s, %s or %s", err, Cities, PlanetLab, EdgeSites)
	}
	defer func() { _ = f.Close() }() // nothing is lost by it
	m, err := parseMatrix(io.LimitReader(f, maxMatrix))
	if err != nil {
		return Matrix{}, fmt.Errorf("matrix %s: %w", name, err)
	}
	return m, nil
}

func parseMatrix(r io.Reader) (Matrix, error) {
	rows, err := csv.NewReader(r).ReadAll()
	if err != nil {
		return Matrix{}, err
	}
	if len(rows) < 2 || len(rows) != len(rows[0]) {
		return Matrix{}, fmt.Errorf("%d rows: there must be as many as columns, and one more of each for the names", len(rows))
	}
	m := Matrix{Places: rows[0][1:]}
	for i, row := range rows[1:] {
		if row[0] != m.Places[i] {
			return Matrix{}, fmt.Errorf("row %d is of %q, column %d of %q: the order must be the same", i+2, row[0], i+2, m.Places[i])
		}
		if slices.Index(m.Places, row[0]) != i {
			return Matrix{}, fmt.Errorf("%q is there twice", row[0])
		}
		times := make([]time.Duration, len(row)-1)
		for j, cell := range row[1:] {
			ms, err := strconv.ParseFloat(strings.TrimSpace(cell), 64)
			if err != nil || !(ms >= 0 && ms <= 60000) {
				return Matrix{}, fmt.Errorf("%s to %s: %q must be a round trip time in milliseconds, 0 to 60000", row[0], m.Places[j], cell)
			}
			times[j] = time.Duration(ms * float64(time.Millisecond))
		}
		m.RTT = append(m.RTT, times)
	}
	return m, nil
}

// parseSites makes a matrix of coordinates.
func parseSites(r io.Reader) (Matrix, error) {
	rows, err := csv.NewReader(r).ReadAll()
	if err != nil {
		return Matrix{}, err
	}
	var m Matrix
	var at [][2]float64
	for _, row := range rows[1:] {
		lat, err1 := strconv.ParseFloat(row[1], 64)
		lon, err2 := strconv.ParseFloat(row[2], 64)
		if err1 != nil || err2 != nil {
			return Matrix{}, fmt.Errorf("site %s: %q, %q are no coordinates", row[0], row[1], row[2])
		}
		m.Places, at = append(m.Places, row[0]), append(at, [2]float64{lat, lon})
	}
	for _, a := range at {
		times := make([]time.Duration, len(at))
		for j, b := range at {
			times[j] = GreatCircle(a[0], a[1], b[0], b[1])
		}
		m.RTT = append(m.RTT, times)
	}
	return m, nil
}

// GreatCircle is the round trip time that the distance of two places makes
// plausible: light in fibre (200 km a millisecond), one and a half times the way,
// and a millisecond for the first and the last of it.
func GreatCircle(lat1, lon1, lat2, lon2 float64) time.Duration {
	const earth, perMS = 6371.0, 200.0
	rad := math.Pi / 180
	h := math.Pow(math.Sin((lat2-lat1)*rad/2), 2) + math.Cos(lat1*rad)*math.Cos(lat2*rad)*math.Pow(math.Sin((lon2-lon1)*rad/2), 2)
	km := 2 * earth * math.Asin(math.Sqrt(min(1, h)))
	return time.Duration((1 + 2*1.5*km/perMS) * float64(time.Millisecond))
}

// link is one direction between two places.
func (m Matrix) link(from, to int) emul.Link { return emul.Link{Latency: m.RTT[from][to] / 2} }
