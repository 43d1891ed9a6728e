package experiments

import (
	"cmp"
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
			r.Experiment, r.params(), r.Metric, number(r.Paper), number(r.Expected), number(&r.Measured), r.Unit,
			number(r.ErrorP50), number(r.ErrorP99), cmp.Or(r.Short, r.Note),
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

func number(v *float64) string {
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
	run      func(ctx context.Context, e *env) error
	// virtual is its form in virtual time; nil if it has none.
	virtual func(ctx context.Context, e *env) error
	// suffix of the files with its results, where it has two forms.
	suffix string
	// plot says how rows become a picture; nil for none.
	plot *plot
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

// All experiments by their names.
func All() []Experiment {
	all := there()
	for _, v := range virtual {
		i := slices.IndexFunc(all, func(x Experiment) bool { return x.Name == v.Name })
		if i < 0 {
			all = append(all, v)
		} else {
			all[i].virtual = v.virtual
		}
	}
	slices.SortFunc(all, func(a, b Experiment) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Catalogue is the list of experiments, to be shown.
type Catalogue []Experiment

// Table for people.
func (c Catalogue) Table() (head []string, rows [][]string) {
	head = []string{"NAME", "FORMS", "PAPER", "SHOWS", "CANNOT BE RUN BECAUSE"}
	for _, x := range c {
		rows = append(rows, []string{x.Name, strings.Join(x.Forms(), ","), x.Source, x.Shows, x.Missing})
	}
	return head, rows
}

// Virtual are the experiments that there are in virtual time.
func Virtual() (c Catalogue) {
	for _, x := range All() {
		if x.virtual != nil {
			c = append(c, x)
		}
	}
	return c
}

// Forms in which it can be run: "lab", with real requests or by computation, and
// "sim", in virtual time.
func (x Experiment) Forms() (forms []string) {
	if x.run != nil {
		forms = append(forms, "lab")
	}
	if x.virtual != nil {
		forms = append(forms, "sim")
	}
	return forms
}

// InVirtualTime is the experiment in that form alone; an error says that it has none.
func (x Experiment) InVirtualTime() (Experiment, error) {
	if x.virtual == nil {
		return x, fmt.Errorf("%s has no form in virtual time: verge lab run %s", x.Name, x.Name)
	}
	if x.run != nil {
		x.suffix = ".sim"
	}
	x.run, x.Emulated = nil, false
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

// Find an experiment that can be run.
func Find(name string) (Experiment, error) {
	for _, x := range All() {
		if x.Name != name {
			continue
		}
		if x.Missing != "" {
			return x, fmt.Errorf("%s cannot be run: %s", name, x.Missing)
		}
		return x, nil
	}
	return Experiment{}, fmt.Errorf("there is no experiment %q: verge lab list has them", name)
}

// env is what an experiment works with.
type env struct {
	Options
	name string
	// by is the form that runs, of an experiment with two: "lab" or "sim".
	by   string
	rows Rows
}

// Run an experiment. The error is nil or of its run; that requirements are not met
// is said by short.
func (x Experiment) Run(ctx context.Context, o Options) (rows Rows, short, err error) {
	if o.Say == nil {
		o.Say = func(string, ...any) {}
	}
	e := &env{Options: o, name: x.Name}
	run := x.run
	switch {
	case run == nil:
		run = x.virtual
		if x.suffix != "" {
			e.by = "sim"
		}
	case x.virtual != nil:
		e.by = "lab"
	}
	if err := run(ctx, e); err != nil {
		return e.rows, nil, fmt.Errorf("%s: %w", x.Name, err)
	}
	return e.rows, e.rows.short(), nil
}

// row adds a result; what is not known of it stays nil.
func (e *env) row(r Row) *Row {
	r.Experiment = e.name
	if e.by != "" {
		r.Params = with(r.Params, "by", e.by)
	}
	e.rows = append(e.rows, r)
	return &e.rows[len(e.rows)-1]
}

func known(v float64) *float64 { return &v }
