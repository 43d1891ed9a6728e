package experiment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Row is one result.
type Row struct {
	Experiment string         `json:"experiment"`
	Params     map[string]any `json:"params"`
	Metric     string         `json:"metric"`
	Unit       string         `json:"unit"`
	// Paper is what the paper says, Expected what was computed beforehand; nil
	// where there is none.
	Paper    *float64 `json:"paper"`
	Expected *float64 `json:"expected"`
	Measured float64  `json:"measured"`
	// ErrorP50 and ErrorP99 are the emulator's own error while this was measured,
	// in ms; nil where no link was emulated.
	ErrorP50 *float64 `json:"emulator_error_p50_ms"`
	ErrorP99 *float64 `json:"emulator_error_p99_ms"`
	// Short says why a requirement is not met; "" if it is, or there is none.
	Short string `json:"short,omitempty"`
	// Note is what a reader should know of this row; "" for nothing.
	Note string `json:"note,omitempty"`
}

// Rows of a run.
type Rows []Row

// Table for people.
func (rows Rows) Table() (head []string, out [][]string) {
	head = []string{"EXPERIMENT", "PARAMS", "METRIC", "PAPER", "EXPECTED", "MEASURED", "UNIT", "EMULATOR P50", "P99", "REMARK"}
	for _, r := range rows {
		out = append(out, []string{
			r.Experiment, r.params(), r.Metric, Number(r.Paper), Number(r.Expected), Number(&r.Measured), r.Unit,
			Number(r.ErrorP50), Number(r.ErrorP99), r.remark(),
		})
	}
	return head, out
}

func (r Row) params() string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(r.Params)) {
		parts = append(parts, fmt.Sprintf("%s=%v", k, r.Params[k]))
	}
	return strings.Join(parts, " ")
}

// Number is a figure of a row as people read it, "" for none.
func Number(v *float64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatFloat(*v, 'g', 4, 64)
}

// short lists the requirements that are not met; nil if there is none.
func (rows Rows) short() error {
	var all []error
	for _, r := range rows {
		if r.Short != "" {
			all = append(all, fmt.Errorf("%s %s %s: %s", r.Experiment, r.params(), r.Metric, r.Short))
		}
	}
	return errors.Join(all...)
}

// Experiment is one figure or table.
type Experiment struct {
	Name string
	// Source is the paper and the figure; Shows what is to be seen.
	Source, Shows string
	// Missing says why it cannot be run; "" if it can.
	Missing string
	// Emulated: it needs the lab, and so root.
	Emulated bool
	// run is its form with real requests or by computation; nil if it has none.
	Lab func(ctx context.Context, e *Env) error
	// virtual is its form in virtual time; nil if it has none.
	Virtual func(ctx context.Context, e *Env) error
	// suffix of the files with its results, where it has two forms.
	Suffix string
	// plot says how rows become a picture; nil for none.
	Plot *Plot
}

// Options of a run.
type Options struct {
	Quick bool
	Seed  uint64
	// Verge is the program that runs in hosts, and Tool is verge-lab; Base is the directory
	// of labs, "" for the usual one.
	Verge, Tool, Base string
	// Say is told what happens; nil says nothing.
	Say func(format string, args ...any)
}

// Forms in which it can be run: "lab", with real requests or by computation, and
// "sim", in virtual time.
func (x Experiment) Forms() (forms []string) {
	if x.Lab != nil {
		forms = append(forms, "lab")
	}
	if x.Virtual != nil {
		forms = append(forms, "sim")
	}
	return forms
}

// InVirtualTime is the experiment in that form alone; an error says that it has none.
func (x Experiment) InVirtualTime() (Experiment, error) {
	if x.Virtual == nil {
		return x, fmt.Errorf("%s has no form in virtual time: verge lab run %s", x.Name, x.Name)
	}
	if x.Lab != nil {
		x.Suffix = ".sim"
	}
	x.Lab, x.Emulated = nil, false
	return x, nil
}

// MarshalJSON implements json.Marshaler.
func (x Experiment) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Name    string `json:"name"`
		Source  string `json:"source"`
		Shows   string `json:"shows,omitempty"`
		Missing string `json:"missing,omitempty"`
		Lab     bool   `json:"lab"`
		// Forms is additive: readers of Lab need not know it.
		Forms []string `json:"forms,omitempty"`
	}{x.Name, x.Source, x.Shows, x.Missing, x.Emulated, x.Forms()})
}

// Env is what an experiment works with.
type Env struct {
	Options
	Name string
	// by is the form that runs, of an experiment with two: "lab" or "sim".
	by   string
	Rows Rows
}

// Run an experiment. The error is nil or of its run; that requirements are not met
// is said by short.
func (x Experiment) Run(ctx context.Context, o Options) (rows Rows, short, err error) {
	if o.Say == nil {
		o.Say = func(string, ...any) {}
	}
	e := &Env{Options: o, Name: x.Name}
	run := x.Lab
	switch {
	case run == nil:
		run = x.Virtual
		if x.Suffix != "" {
			e.by = "sim"
		}
	case x.Virtual != nil:
		e.by = "lab"
	}
	if err := run(ctx, e); err != nil {
		return e.Rows, nil, fmt.Errorf("%s: %w", x.Name, err)
	}
	return e.Rows, e.Rows.short(), nil
}

// Row adds a result; what is not known of it stays nil.
func (e *Env) Row(r Row) *Row {
	r.Experiment = e.Name
	if e.by != "" {
		r.Params = With(r.Params, "by", e.by)
	}
	e.Rows = append(e.Rows, r)
	return &e.Rows[len(e.Rows)-1]
}

// Known is a figure that is known.
func Known(v float64) *float64 { return &v }
