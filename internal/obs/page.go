package obs

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"github.com/prometheus/client_golang/prometheus"
	// The model and the formats of the Prometheus client itself: the figures of two
	// processes become one page without another parser of ours.
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// Bounds of a page of figures.
const (
	// maxPage is how large a page of one process, or a text, may be.
	maxPage = 16 << 20
	// maxFamilies of one page.
	maxFamilies = 10_000
)

// errTooMuch is wrapped by the errors for figures beyond the bounds.
var errTooMuch = errors.New("too many figures")

// Page measures this process once, for somebody who makes one text of several
// pages. process ("agent", "engine") is its role, and a label of each figure.
// Nothing is kept, so that who is never asked pays nothing.
func Page(process string, samples []Sample) ([]byte, error) {
	r := prometheus.NewRegistry()
	registerProcess(prometheus.WrapRegistererWith(prometheus.Labels{"process": process}, r), process,
		func() []Sample { return samples })
	families, err := r.Gather()
	if err != nil {
		return nil, fmt.Errorf("measuring this process: %w", err)
	}
	var out bytes.Buffer
	enc := expfmt.NewEncoder(&out, expfmt.NewFormat(expfmt.TypeProtoDelim))
	for _, f := range families {
		if err := enc.Encode(f); err != nil {
			return nil, fmt.Errorf("encoding %s: %w", f.GetName(), err)
		}
	}
	if out.Len() > maxPage {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", errTooMuch, out.Len(), maxPage)
	}
	return out.Bytes(), nil
}

// Text is all pages together in the text format of Prometheus.
func Text(pages ...[]byte) ([]byte, error) {
	var all prometheus.Gatherers
	for _, p := range pages {
		all = append(all, prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return families(p) }))
	}
	list, err := all.Gather()
	if err != nil {
		return nil, fmt.Errorf("putting figures together: %w", err)
	}
	var out bytes.Buffer
	for _, f := range list {
		if _, err := expfmt.MetricFamilyToText(&out, f); err != nil {
			return nil, fmt.Errorf("writing %s: %w", f.GetName(), err)
		}
		if out.Len() > maxPage {
			return nil, fmt.Errorf("%w: more than %d bytes", errTooMuch, maxPage)
		}
	}
	return out.Bytes(), nil
}

func families(page []byte) (out []*dto.MetricFamily, err error) {
	dec := expfmt.NewDecoder(bytes.NewReader(page), expfmt.NewFormat(expfmt.TypeProtoDelim))
	for {
		f := &dto.MetricFamily{}
		switch err := dec.Decode(f); {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, fmt.Errorf("reading a page of figures: %w", err)
		}
		if out = append(out, f); len(out) > maxFamilies {
			return nil, fmt.Errorf("%w: more than %d names", errTooMuch, maxFamilies)
		}
	}
}

// Pack makes a text small for a message; Unpack is the way back, up to maxPage.
func Pack(text []byte) ([]byte, error) {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(text); err != nil {
		return nil, fmt.Errorf("packing figures: %w", err)
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf("packing figures: %w", err)
	}
	return out.Bytes(), nil
}

// Unpack is the text that Pack was given.
func Unpack(packed []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("unpacking figures: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(z, maxPage+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("unpacking figures: %w", err)
	case len(text) > maxPage:
		return nil, fmt.Errorf("%w: more than %d bytes", errTooMuch, maxPage)
	}
	return text, nil
}
