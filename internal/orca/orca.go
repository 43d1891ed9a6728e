package orca

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Header carries a report in one of three forms, Trailer (of gRPC) in the last one,
// without its name.
const (
	Header  = "Endpoint-Load-Metrics"
	Trailer = "Endpoint-Load-Metrics-Bin"
)

// Bounds of what is read.
const (
	maxHeader = 4 << 10
	// MaxNamed metrics of a report.
	MaxNamed = 16
	maxName  = 64
)

// Metric is one that has a name of its own.
type Metric struct {
	Name  string
	Value float64
}

// Report of load. 0 says nothing.
type Report struct {
	// CPU, Memory and Application are utilisations: 1 is all there is; CPU and
	// Application may be above.
	CPU, Memory, Application float64
	// RPS are requests, EPS errors per second.
	RPS, EPS float64

	named [MaxNamed]Metric
	n     int
}

// Named are the metrics with names, in the order in which they came. They are valid as
// long as the Report is not changed.
func (r *Report) Named() []Metric { return r.named[:r.n] }

// Get is the value of a metric with a name.
func (r *Report) Get(name string) (float64, bool) {
	for i := range r.named[:r.n] {
		if r.named[i].Name == name {
			return r.named[i].Value, true
		}
	}
	return 0, false
}

// Set adds a metric or replaces its value. It is false where there is no room, or the
// name or the value cannot be written.
func (r *Report) Set(name string, value float64) bool {
	if !validName(name) || !valid(value) {
		return false
	}
	for i := range r.named[:r.n] {
		if r.named[i].Name == name {
			r.named[i].Value = value
			return true
		}
	}
	if r.n == MaxNamed {
		return false
	}
	r.named[r.n] = Metric{name, value}
	r.n++
	return true
}

// Drop removes a metric.
func (r *Report) Drop(name string) {
	for i := range r.named[:r.n] {
		if r.named[i].Name == name {
			copy(r.named[i:], r.named[i+1:r.n])
			r.n--
			r.named[r.n] = Metric{}
			return
		}
	}
}

var (
	errLong   = errors.New("load report: too long")
	errForm   = errors.New("load report: neither TEXT nor JSON nor BIN")
	errName   = errors.New("load report: invalid name")
	errTwice  = errors.New("load report: a metric that is there twice")
	errNamed  = fmt.Errorf("load report: more than %d named metrics", MaxNamed)
	errNumber = errors.New("load report: a value that is no finite number from 0 on")
	errWire   = errors.New("load report: damaged")
)

// Parse reads the value of a Header.
func Parse(value string) (r Report, err error) {
	if len(value) > maxHeader {
		return Report{}, errLong
	}
	form, rest, _ := strings.Cut(value, " ")
	switch form {
	case "TEXT":
		err = r.text(rest)
	case "JSON":
		err = r.json(rest)
	case "BIN":
		return ParseTrailer(rest)
	default:
		err = errForm
	}
	if err != nil {
		return Report{}, err
	}
	return r, nil
}

// ParseTrailer reads the value of a Trailer: a message in base64, with or without
// padding.
func ParseTrailer(value string) (r Report, err error) {
	if len(value) > maxHeader {
		return Report{}, errLong
	}
	b, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(strings.TrimSpace(value), "="))
	if err != nil {
		return Report{}, errWire
	}
	if err := r.message(b); err != nil {
		return Report{}, err
	}
	return r, nil
}

const namedPrefix = "named_metrics."

// field is where a metric of the format's own is kept; nil for what is not used here.
func (r *Report) field(name string) *float64 {
	switch name {
	case "cpu_utilization":
		return &r.CPU
	case "mem_utilization":
		return &r.Memory
	case "application_utilization":
		return &r.Application
	case "rps_fractional":
		return &r.RPS
	case "eps":
		return &r.EPS
	}
	return nil
}

// text is "name=value,name=value", or with colons.
func (r *Report) text(s string) error {
	for s != "" {
		var pair string
		pair, s, _ = strings.Cut(s, ",")
		pair = strings.Trim(pair, " \t")
		if pair == "" {
			continue
		}
		at := strings.IndexAny(pair, "=:")
		if at < 0 {
			return errForm
		}
		v, err := strconv.ParseFloat(strings.Trim(pair[at+1:], " \t"), 64)
		if err != nil {
			return errNumber
		}
		if err := r.take(strings.Trim(pair[:at], " \t"), v); err != nil {
			return err
		}
	}
	return nil
}

func (r *Report) take(name string, v float64) error {
	if !valid(v) {
		return errNumber
	}
	if name, is := strings.CutPrefix(name, namedPrefix); is {
		return r.takeNamed(name, v)
	}
	if !validName(name) {
		return errName
	}
	if f := r.field(name); f != nil {
		if *f != 0 {
			return errTwice
		}
		*f = v
	}
	return nil
}

func (r *Report) takeNamed(name string, v float64) error {
	if !valid(v) {
		return errNumber
	}
	if !validName(name) {
		return errName
	}
	if _, twice := r.Get(name); twice {
		return errTwice
	}
	if !r.Set(name, v) {
		return errNamed
	}
	return nil
}

func (r *Report) json(s string) error {
	var in struct {
		CPU         float64            `json:"cpu_utilization"`
		Memory      float64            `json:"mem_utilization"`
		Application float64            `json:"application_utilization"`
		RPS         float64            `json:"rps_fractional"`
		EPS         float64            `json:"eps"`
		Named       map[string]float64 `json:"named_metrics"`
	}
	if err := json.Unmarshal([]byte(s), &in); err != nil {
		return fmt.Errorf("load report: %w", err)
	}
	r.CPU, r.Memory, r.Application, r.RPS, r.EPS = in.CPU, in.Memory, in.Application, in.RPS, in.EPS
	if !r.fieldsValid() {
		return errNumber
	}
	return r.takeMap(in.Named)
}

// takeMap takes them in the order of their names.
func (r *Report) takeMap(named map[string]float64) error {
	names := make([]string, 0, len(named))
	for name := range named {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if err := r.takeNamed(name, named[name]); err != nil {
			return err
		}
	}
	return nil
}

func (r *Report) fieldsValid() bool {
	return valid(r.CPU) && valid(r.Memory) && valid(r.Application) && valid(r.RPS) && valid(r.EPS)
}

// message reads xds.data.orca.v3.OrcaLoadReport.
func (r *Report) message(b []byte) error {
	err := fields(b, func(number, kind, bits uint64, data []byte) error {
		v := math.Float64frombits(bits)
		if (kind == kindBytes) != (number == 8) {
			return nil // another field than those here
		}
		switch number {
		case 1:
			r.CPU = v
		case 2:
			r.Memory = v
		case 6:
			r.RPS = v
		case 7:
			r.EPS = v
		case 9:
			r.Application = v
		case 8:
			var m Metric
			err := fields(data, func(number, kind, bits uint64, data []byte) error {
				switch {
				case number == 1 && kind == kindBytes:
					if len(data) > maxName {
						return errName
					}
					m.Name = string(data)
				case number == 2 && kind == kindFixed64:
					m.Value = math.Float64frombits(bits)
				}
				return nil
			})
			if err != nil {
				return err
			}
			return r.takeNamed(m.Name, m.Value)
		}
		return nil
	})
	if err == nil && !r.fieldsValid() {
		return errNumber
	}
	return err
}

// Kinds of fields of a message.
const (
	kindVarint  = 0
	kindFixed64 = 1
	kindBytes   = 2
	kindFixed32 = 5
)

// fields calls f for each field of a message: bits of a fixed one, data of bytes.
func fields(b []byte, f func(number, kind, bits uint64, data []byte) error) error {
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 {
			return errWire
		}
		b = b[n:]
		number, kind := tag>>3, tag&7
		var bits uint64
		var data []byte
		switch kind {
		case kindVarint:
			_, n := binary.Uvarint(b)
			if n <= 0 {
				return errWire
			}
			b = b[n:] // nothing here needs one
			continue
		case kindFixed64:
			if len(b) < 8 {
				return errWire
			}
			bits, b = binary.LittleEndian.Uint64(b), b[8:]
		case kindFixed32:
			if len(b) < 4 {
				return errWire
			}
			b = b[4:]
			continue
		case kindBytes:
			size, n := binary.Uvarint(b)
			if n <= 0 || size > uint64(len(b)-n) {
				return errWire
			}
			data, b = b[n:n+int(size)], b[n+int(size):]
		default:
			return errWire
		}
		if err := f(number, kind, bits, data); err != nil {
			return err
		}
	}
	return nil
}

// AppendText appends the report as the value of a Header in its TEXT form. What is 0
// is left out, but for named metrics.
func (r *Report) AppendText(b []byte) []byte {
	b = append(b, "TEXT "...)
	start := len(b)
	put := func(prefix, name string, v float64) {
		if len(b) > start {
			b = append(b, ',')
		}
		b = append(b, prefix...)
		b = append(b, name...)
		b = append(b, '=')
		b = appendNumber(b, v)
	}
	for _, f := range [...]Metric{
		{"cpu_utilization", r.CPU},
		{"mem_utilization", r.Memory},
		{"application_utilization", r.Application},
		{"rps_fractional", r.RPS},
		{"eps", r.EPS},
	} {
		if f.Value > 0 && valid(f.Value) {
			put("", f.Name, f.Value)
		}
	}
	for i := range r.named[:r.n] {
		put(namedPrefix, r.named[i].Name, r.named[i].Value)
	}
	return b
}

// AppendBinary appends the report as the value of a Trailer: the message
// xds.data.orca.v3.OrcaLoadReport in base64 without padding, as gRPC sends it. What is 0
// is left out, but for named metrics.
func (r *Report) AppendBinary(b []byte) []byte {
	var m []byte
	put := func(m []byte, number uint64, v float64) []byte {
		m = binary.AppendUvarint(m, number<<3|kindFixed64)
		return binary.LittleEndian.AppendUint64(m, math.Float64bits(v))
	}
	for _, f := range [...]struct {
		number uint64
		value  float64
	}{{1, r.CPU}, {2, r.Memory}, {6, r.RPS}, {7, r.EPS}, {9, r.Application}} {
		if f.value > 0 && valid(f.value) {
			m = put(m, f.number, f.value)
		}
	}
	for i := range r.named[:r.n] {
		n := &r.named[i]
		e := binary.AppendUvarint([]byte{1<<3 | kindBytes}, uint64(len(n.Name)))
		e = put(append(e, n.Name...), 2, n.Value)
		m = binary.AppendUvarint(append(m, 8<<3|kindBytes), uint64(len(e)))
		m = append(m, e...)
	}
	return base64.RawStdEncoding.AppendEncode(b, m)
}

// appendNumber: whole ones as such, others with what they are good for.
func appendNumber(b []byte, v float64) []byte {
	if i := int64(v); v < 1e15 && float64(i) == v {
		return strconv.AppendInt(b, i, 10)
	}
	return strconv.AppendFloat(b, v, 'g', 6, 64)
}

func valid(v float64) bool { return v >= 0 && v <= math.MaxFloat64 }

// validName: what can be in a header without anybody taking it for something else.
func validName(s string) bool {
	if s == "" || len(s) > maxName {
		return false
	}
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || c == ',' || c == '=' || c == ':' {
			return false
		}
	}
	return true
}
