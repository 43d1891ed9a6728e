// Command promcheck reads alert rules and dashboards as Prometheus does: a rule that it
// would not load, or an expression that it cannot parse, is an error.
//
//	promcheck alerts.yaml … dashboard.json …
//
// It is a module of its own, so that Verge does not depend on Prometheus.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(files []string) error {
	var all []error
	for _, file := range files {
		n, err := check(file)
		if err != nil {
			all = append(all, fmt.Errorf("%s: %w", file, err))
			continue
		}
		fmt.Printf("%s: %d expressions\n", file, n)
	}
	return errors.Join(all...)
}

func check(file string) (int, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	if strings.HasSuffix(file, ".json") {
		return dashboard(data)
	}
	return rules(data)
}

func rules(data []byte) (n int, err error) {
	groups, errs := rulefmt.Parse(data, false)
	if len(errs) > 0 {
		return 0, errors.Join(errs...)
	}
	for _, g := range groups.Groups {
		n += len(g.Rules)
	}
	if n == 0 {
		return 0, errors.New("there are no rules in it")
	}
	return n, nil
}

// dashboard checks the expressions of a dashboard of Grafana.
func dashboard(data []byte) (n int, err error) {
	var d struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(data, &d); err != nil {
		return 0, err
	}
	var all []error
	for _, p := range d.Panels {
		for _, t := range p.Targets {
			n++
			if _, err := parser.ParseExpr(t.Expr); err != nil {
				all = append(all, fmt.Errorf("panel %q: %w", p.Title, err))
			}
		}
	}
	if n == 0 {
		return 0, errors.New("there are no expressions in it")
	}
	return n, errors.Join(all...)
}
