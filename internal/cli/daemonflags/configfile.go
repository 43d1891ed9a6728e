package daemonflags

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v4"

	"github.com/verge-edge/verge/internal/atomicfile"
)

// Bounds of the configuration of a daemon.
const (
	// MaxConfigBytes is the size of one file.
	MaxConfigBytes = 256 << 10
	maxConfigFiles = 100 // in conf.d
)

// configFlag names the file.
const configFlag = "config"

// isSetting says whether a flag is one that a file may have.
func isSetting(f *pflag.Flag) bool {
	return f != nil && f.Name != "help" && f.Name != configFlag && f.Name != "output"
}

// ConfigFile is the main file of a role where none is named: it need not exist.
func (l *Line) ConfigFile(role string) string {
	if l.ConfigDir != "" {
		return filepath.Join(l.ConfigDir, role+".yaml")
	}
	if os.Geteuid() == 0 {
		return filepath.Join("/etc/verge", role+".yaml")
	}
	base := l.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(base) {
		home := l.Getenv("HOME")
		if home == "" {
			return ""
		}
		base = filepath.Join(home, ".config")
	}
	return filepath.Join(base, "verge", role+".yaml")
}

// configFiles are the files that a daemon reads, later ones over earlier: the main
// one, then those of the folder beside it, root.d for root.yaml, by name.
func configFiles(main string, named bool) ([]string, error) {
	if main == "" {
		return nil, nil
	}
	var files []string
	switch _, err := os.Stat(main); {
	case err == nil:
		files = append(files, main)
	case named || !errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("configuration file: %w", err)
	}
	dir := strings.TrimSuffix(strings.TrimSuffix(main, ".yaml"), ".yml") + ".d"
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("configuration folder: %w", err)
	}
	for _, e := range entries { // sorted
		if strings.HasPrefix(e.Name(), ".") ||
			!(strings.HasSuffix(e.Name(), ".yaml") || strings.HasSuffix(e.Name(), ".yml")) {
			continue
		}
		files = append(files, filepath.Join(dir, e.Name()))
	}
	if len(files) > maxConfigFiles {
		return nil, fmt.Errorf("configuration folder %s has %d files, at most %d are read", dir, len(files),
			maxConfigFiles)
	}
	return files, nil
}

// flagsFromFiles sets each flag of cmd that neither the command line nor the environment sets,
// from the configuration files. Keys are the names of the flags. strict: another key is an error.
// origin receives the source of each.
func flagsFromFiles(cmd *cobra.Command, files []string, strict bool, origin map[string]string) error {
	given := map[string]bool{}
	for _, f := range givenFlags(cmd) {
		given[f.Name] = true
	}
	for _, file := range files {
		doc, err := readConfig(file)
		if err != nil {
			return err
		}
		seen := map[string]bool{}
		for i := 0; doc != nil && i+1 < len(doc.Content); i += 2 {
			key, value := doc.Content[i], doc.Content[i+1]
			at := fmt.Sprintf("%s:%d", file, key.Line)
			f := cmd.LocalNonPersistentFlags().Lookup(key.Value)
			switch {
			case f == nil && !strict:
				continue // of the daemon, and no business of this command
			case !isSetting(f):
				return configError(at, fmt.Sprintf("%q is not a setting of verge %s", key.Value, cmd.Name()),
					nextSetting(cmd, key.Value))
			case seen[f.Name]:
				return configError(at, f.Name+" is set twice", "remove one of them")
			}
			seen[f.Name] = true
			if given[f.Name] {
				continue
			}
			if err := setFlag(f, value); err != nil {
				return configError(at, fmt.Sprintf("%s: %v", f.Name, err), "see: verge "+cmd.Name()+" --help")
			}
			f.Changed = true
			origin[f.Name] = at
		}
	}
	return nil
}

func configError(at, why, next string) error {
	return failure("the configuration cannot be used", at+": "+why, next)
}

// nextSetting says what may have been meant.
func nextSetting(cmd *cobra.Command, key string) string {
	near := strings.ReplaceAll(strings.ToLower(key), "_", "-")
	if f := cmd.LocalNonPersistentFlags().Lookup(near); f != nil && near != key {
		return "write " + near
	}
	return "list the settings with: verge config print " + cmd.Name()
}

// readConfig returns the mapping that a file holds, nil if it is empty.
func readConfig(file string) (*yaml.Node, error) {
	data, err := atomicfile.ReadBounded(file, MaxConfigBytes)
	if err != nil {
		return nil, fmt.Errorf("configuration file: %w", err)
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, configError(file, err.Error(), "write YAML, one line of name: value for each setting")
	}
	if err := dec.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, configError(file, "has a second document", "a file is one document: remove the ---")
	}
	m := &doc
	if m.Kind == yaml.DocumentNode && len(m.Content) == 1 {
		m = m.Content[0]
	}
	switch {
	case m.Kind == yaml.ScalarNode && m.Value == "":
		return nil, nil
	case m.Kind != yaml.MappingNode:
		return nil, configError(fmt.Sprintf("%s:%d", file, m.Line), "is not a mapping",
			"write one line of name: value for each setting")
	}
	return m, nil
}

// setFlag sets a flag from a value of a file: a scalar, a list for those that may
// be repeated, a mapping for those of KEY=VALUE.
func setFlag(f *pflag.Flag, v *yaml.Node) error {
	list, many := f.Value.(pflag.SliceValue)
	pairs := f.Value.Type() == "stringToString"
	switch {
	case v.Kind == yaml.ScalarNode && many:
		return list.Replace([]string{v.Value})
	case v.Kind == yaml.ScalarNode:
		return f.Value.Set(v.Value)
	case v.Kind == yaml.SequenceNode && many:
		var all []string
		for _, item := range v.Content {
			if item.Kind != yaml.ScalarNode {
				return fmt.Errorf("line %d: an entry must be a text", item.Line)
			}
			all = append(all, item.Value)
		}
		return list.Replace(all)
	case v.Kind == yaml.MappingNode && pairs:
		var all []string
		for i := 0; i+1 < len(v.Content); i += 2 {
			if v.Content[i+1].Kind != yaml.ScalarNode {
				return fmt.Errorf("line %d: a value must be a text", v.Content[i+1].Line)
			}
			all = append(all, csvQuote(v.Content[i].Value+"="+v.Content[i+1].Value))
		}
		if all == nil {
			return nil
		}
		return f.Value.Set(strings.Join(all, ","))
	case v.Kind == yaml.AliasNode:
		return errors.New("aliases are not supported here")
	}
	return errors.New("this kind of value is not supported")
}

// setText sets a flag to what TextOf returned.
func setText(f *pflag.Flag, text any) error {
	switch v := text.(type) {
	case []string:
		return f.Value.(pflag.SliceValue).Replace(v)
	case map[string]string:
		var all []string
		for k, value := range v {
			all = append(all, csvQuote(k+"="+value))
		}
		if all == nil {
			return nil
		}
		slices.Sort(all)
		return f.Value.Set(strings.Join(all, ","))
	default:
		return f.Value.Set(fmt.Sprint(v))
	}
}

// csvQuote protects commas and quotes in one of the pairs that pflag reads as CSV.
func csvQuote(s string) string {
	if strings.ContainsAny(s, ",\"\n\r") {
		return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
	}
	return s
}

// TextOf is the value of a flag in the form in which a file has it.
func TextOf(f *pflag.Flag) any {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		return list.GetSlice()
	}
	if f.Value.Type() == "stringToString" {
		out := map[string]string{}
		for _, pair := range csvSplit(strings.Trim(f.Value.String(), "[]")) {
			if k, v, ok := strings.Cut(pair, "="); ok {
				out[k] = v
			}
		}
		return out
	}
	return f.Value.String()
}

// csvSplit undoes csvQuote for a line of pairs.
func csvSplit(s string) (out []string) {
	var b strings.Builder
	quoted := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' && quoted && i+1 < len(s) && s[i+1] == '"':
			b.WriteByte('"')
			i++
		case c == '"':
			quoted = !quoted
		case c == ',' && !quoted:
			out = append(out, b.String())
			b.Reset()
		default:
			b.WriteByte(c)
		}
	}
	return append(out, b.String())
}

// givenFlags are the flags of cmd that have been set. FlagSet.Visit knows only of
// those that were set through it.
func givenFlags(cmd *cobra.Command) []*pflag.Flag {
	var all []*pflag.Flag
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Changed {
			all = append(all, f)
		}
	})
	return all
}

// SortedFlags are the flags that are settings, by name.
func SortedFlags(cmd *cobra.Command) []*pflag.Flag {
	var all []*pflag.Flag
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if isSetting(f) {
			all = append(all, f)
		}
	})
	slices.SortFunc(all, func(a, b *pflag.Flag) int { return strings.Compare(a.Name, b.Name) })
	return all
}
