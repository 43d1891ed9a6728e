// Package trace has requests over time that somebody measured: what autoscalers and
// predictors are tried on.
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

// Azure are the calls per minute of 50 functions over a day, the smoothest first. See
// README.md for where they come from.
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

// Scaled is a trace with another mean; one of nothing stays so.
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
