package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"
)

// outputFlag adds -o; its default is the first mode.
func outputFlag(cmd *cobra.Command, mode *string, modes ...string) {
	cmd.Flags().StringVarP(mode, "output", "o", modes[0], "output format: "+strings.Join(modes, ", "))
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !slices.Contains(modes, *mode) {
			return usageError(cmd, "-o %s is not one of %s", *mode, strings.Join(modes, ", "))
		}
		return run(cmd, args)
	}
	// The names are fixed; an error would mean that the flag above is missing.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(modes, cobra.ShellCompDirectiveNoFileComp))
}

// encode writes v as JSON or as the same in YAML.
func (a *app) encode(mode string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the output: %w", err)
	}
	if mode == "yaml" {
		if data, err = toYAML(data); err != nil {
			return fmt.Errorf("encode the output: %w", err)
		}
	}
	return a.printf("%s", strings.TrimRight(string(data), "\n"))
}

// toYAML turns JSON, which is YAML, into YAML as people write it, with the fields
// in the same order.
func toYAML(data []byte) ([]byte, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, err
	}
	unquote(&doc)
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	enc.CompactSeqIndent()
	if err := enc.Encode(&doc); err != nil {
		return nil, err
	}
	return out.Bytes(), enc.Close()
}

// unquote takes the braces and quotes of JSON away where they are not needed.
func unquote(n *yaml.Node) {
	n.Style = 0
	for _, c := range n.Content {
		unquote(c)
	}
}

// column of a table of T; wide ones are shown with -o wide only.
type column[T any] struct {
	name string
	wide bool
	cell func(T) cell
}

// listing is what get prints.
type listing[T any] struct {
	kind    string // for -o name
	name    func(T) string
	columns []column[T]
}

// maxText is how many characters of a text a table shows. Names have no blanks and are
// never cut: they are copied into other commands.
const maxText = 100

// shorten cuts the texts of a table and says whether there was one to cut.
func shorten(rows [][]cell) (cut bool) {
	for _, r := range rows {
		for i, c := range r {
			if text := []rune(c.text); len(text) > maxText && strings.ContainsRune(c.text, ' ') {
				r[i].text, cut = strings.TrimRight(string(text[:maxText-1]), " ")+"…", true
			}
		}
	}
	return cut
}

// print writes items in the mode. single writes the only item without the list
// around it (JSON and YAML).
func (l listing[T]) print(a *app, mode string, list []T, single bool) error {
	switch mode {
	case "json", "yaml":
		if single && len(list) == 1 {
			return a.encode(mode, list[0])
		}
		if list == nil {
			list = []T{}
		}
		return a.encode(mode, struct {
			Items []T `json:"items"`
		}{list})
	case "name":
		for _, v := range list {
			if err := a.printf("%s/%s", l.kind, l.name(v)); err != nil {
				return err
			}
		}
		return nil
	}
	if len(list) == 0 {
		a.notef("no %ss", l.kind)
		return nil
	}
	var header []string
	rows := make([][]cell, len(list))
	for _, c := range l.columns {
		if c.wide && mode != "wide" {
			continue
		}
		header = append(header, strings.ToUpper(c.name))
		for i, v := range list {
			rows[i] = append(rows[i], c.cell(v))
		}
	}
	if mode != "wide" && shorten(rows) {
		defer a.notef("long texts are cut: use -o wide")
	}
	return a.table(header, rows)
}
