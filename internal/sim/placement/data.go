package placement

import (
	"compress/gzip"
	"embed"
	"encoding/csv"
	"fmt"
	"strconv"
)

//go:embed data/*.csv.gz
var data embed.FS

// table is one of the embedded files; its lines may have different lengths.
func table(name string) ([][]string, error) {
	f, err := data.Open("data/" + name + ".csv.gz")
	if err != nil {
		return nil, fmt.Errorf("data of placement: %w", err)
	}
	defer func() { _ = f.Close() }() // nothing is lost by it
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("unpack %s: %w", name, err)
	}
	r := csv.NewReader(z)
	r.FieldsPerRecord = -1
	rows, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return rows, nil
}

// numbers reads numbers and keeps the first error.
type numbers struct{ err error }

func (n *numbers) float(text string) float64 {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil && n.err == nil {
		n.err = err
	}
	return v
}
