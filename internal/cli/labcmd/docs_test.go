package labcmd

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/verge-edge/verge/internal/cli"
)

var (
	codeBlock = regexp.MustCompile("(?ms)^```.*?^```")
	codeSpan  = regexp.MustCompile("`([^`\n]+)`")
	invoked   = regexp.MustCompile(`(?:^|[|(;&"']\s*|\$ |sudo )verge ([a-z-].*)`)
	aside     = regexp.MustCompile(`\s{2,}|\s#|\s[|>;&]|\s--(?:\s|$)|\s\\$`) // ends a command on its line
	flagName  = regexp.MustCompile(`^--?[a-z][a-z0-9-]*`)
	word      = regexp.MustCompile(`^[a-z][a-z-]*$`)
)

// The commands and flags that the pages name exist.
func TestCommandsInPages(t *testing.T) {
	var pages []string
	for _, pattern := range []string{"*.md", "docs/*.md", "examples/*/*.md", "internal/*/DESIGN.md",
		"internal/*/*/DESIGN.md"} {
		list, err := filepath.Glob("../../../" + pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, list...)
	}
	root, n := tree(), 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range commandsIn(string(text)) {
			n++
			if why := unknownIn(root, c); why != "" {
				t.Errorf("%s: %s: %s", strings.TrimPrefix(page, "../../../"), c, why)
			}
		}
	}
	if n < 500 {
		t.Errorf("%d commands were found", n)
	}
}

// Planted mistakes are found.
func TestCommandsInPagesFinds(t *testing.T) {
	root := tree()
	for page, wrong := range map[string]bool{
		"    verge apply --no-wait shop.yaml        --nonsense is an aside": false,
		"see `verge get instances -o wide`":                                 false,
		"```sh\nverge lab run x.yaml # verge nonsense\n```\n":               false,
		"    verge aply shop.yaml":                                          true,
		"say `verge rollout begin shop`":                                    true,
		"```sh\nverge apply --dry shop.yaml\n```\n":                         true,
		"`verge cluster --patients 3`":                                      true,
		"    sudo verge worker -q":                                          true,
	} {
		var found []string
		for _, c := range commandsIn(page) {
			found = append(found, unknownIn(root, c))
		}
		if got := strings.Join(found, ""); (got != "") != wrong {
			t.Errorf("%q: %q", page, found)
		}
	}
}

// tree has all commands, with those of the lab instead of what finds its program.
func tree() *cobra.Command {
	root := cli.Commands(cli.Options{})
	for _, c := range Commands() { // verge-lab, which verge lab runs
		c.Use = strings.TrimPrefix(c.Annotations[cobra.CommandDisplayNameAnnotation], "verge ")
		root.RemoveCommand(child(root, c.Use))
		root.AddCommand(c)
	}
	return root
}

// commandsIn are the command lines of a page's code, without "verge".
func commandsIn(page string) []string {
	var lines []string
	prose := codeBlock.ReplaceAllStringFunc(page, func(block string) string {
		lines = append(lines, strings.Split(block, "\n")...)
		return ""
	})
	for line := range strings.Lines(prose) {
		if strings.HasPrefix(line, "    ") {
			lines = append(lines, strings.TrimSpace(line))
			continue
		}
		for _, m := range codeSpan.FindAllStringSubmatch(line, -1) {
			lines = append(lines, m[1])
		}
	}
	var out []string
	for _, line := range lines {
		if m := invoked.FindStringSubmatch(line); m != nil {
			command := m[1]
			if at := aside.FindStringIndex(command); at != nil {
				command = command[:at[0]]
			}
			out = append(out, command)
		}
	}
	return out
}

// unknownIn says what of a command line does not exist, "" if all of it does.
func unknownIn(cmd *cobra.Command, line string) string {
	args := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" ()[]\"',…", r) })
	path, value := true, false // of commands, so far; of a flag, next
	for _, arg := range args {
		if name := flagName.FindString(arg); name != "" {
			f := flagOf(cmd, name)
			if f == nil {
				return fmt.Sprintf("%s has no flag %s", cmd.CommandPath(), name)
			}
			value = f.NoOptDefVal == "" && arg == name
			continue
		}
		if value || !path {
			value = false
			continue
		}
		next := child(cmd, arg)
		if path = next != nil; path {
			cmd = next
		} else if word.MatchString(arg) && cmd.HasSubCommands() && cmd.Name() != "help" {
			return fmt.Sprintf("%s has no command %s", cmd.CommandPath(), arg)
		}
	}
	return ""
}

func child(cmd *cobra.Command, name string) *cobra.Command {
	for _, c := range cmd.Commands() {
		if c.Name() == name || c.HasAlias(name) {
			return c
		}
	}
	return nil
}

// flagOf is a flag of a command: "--output", "-o", or the last of "-it".
func flagOf(cmd *cobra.Command, name string) (f *pflag.Flag) {
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	sets := []*pflag.FlagSet{cmd.Flags(), cmd.InheritedFlags()}
	if long, is := strings.CutPrefix(name, "--"); is {
		return cmp.Or(sets[0].Lookup(long), sets[1].Lookup(long))
	}
	for _, letter := range strings.TrimPrefix(name, "-") {
		short := string(letter)
		if f = cmp.Or(sets[0].ShorthandLookup(short), sets[1].ShorthandLookup(short)); f == nil {
			return nil
		}
	}
	return f
}
