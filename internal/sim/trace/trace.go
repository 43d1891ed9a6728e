// Package trace has measured requests over time, to test autoscalers and predictors on.
package trace

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/csv"
	"fmt"
	"strconv"
)

//go:embed azure.csv.gz
var azure []byte

// Azure has the calls per minute of 50 functions over a day, the smoothest first. README.md names
// their source.
func Azure() ([][]float64, error) {
	z, err := gzip.NewReader(bytes.NewReader(azure))
	if err != nil {
		return nil, fmt.Errorf("unpack the trace: %w", err)
	}
	rows, err := csv.NewReader(z).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("read the trace: %w", err)
	}
	var out [][]float64
	for _, row := range rows[1:] {
		v := make([]float64, len(row)-2)
		for i, cell := range row[2:] {
			if v[i], err = strconv.ParseFloat(cell, 64); err != nil {
				return nil, fmt.Errorf("read the trace: %w", err)
			}
		}
		out = append(out, v)
	}
	return out, nil
}

// Scaled scales a trace to another mean; one without calls stays so.
func Scaled(v []float64, mean float64) []float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	out := make([]float64, len(v))
	if sum > 0 {
		for i, x := range v {
			out[i] = x * mean * float64(len(v)) / sum
		}
	}
	return out
}
