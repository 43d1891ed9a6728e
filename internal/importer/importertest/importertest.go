package importertest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/importer"
	"github.com/verge-edge/verge/internal/importer/compose/dotenv"
)

// Bomb is nine levels of nine aliases.
func Bomb() string {
	var b strings.Builder
	b.WriteString("services:\n  a0: &a0 lol\n")
	for i := 1; i < 10; i++ {
		fmt.Fprintf(&b, "  a%d: &a%d [%s]\n", i, i,
			strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 9), ","))
	}
	return b.String()
}

// Lines are n lines made by a format of one number.
func Lines(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// Expansions demands that a source which stands for more than a descriptor could have is refused at its
// place, before it is made.
func Expansions(t *testing.T, sources map[string]string) {
	t.Helper()
	for name, text := range sources {
		t.Run(name, func(t *testing.T) {
			text, env, given := strings.Cut(text, EnvMark)
			open := func(path string) ([]byte, error) {
				if path != dotenv.DotEnv || !given {
					return nil, fs.ErrNotExist
				}
				return []byte(env), nil
			}
			res, err := importer.Import([]importer.Source{{Name: "in.yaml", Data: []byte(text), Folder: "shop",
				Open: open}},
				importer.Options{})
			if !errors.Is(err, importer.ErrRefused) || len(res.Apps) > 0 {
				t.Fatalf("it was not refused: %v", err)
			}
			refusals := 0
			for _, n := range res.Notes {
				if n.Level == importer.Refused {
					refusals++
				}
				if n.Level == importer.Refused &&
					(n.Line == 0 || !strings.Contains(n.Text, "more than 8 MiB together")) {
					t.Errorf("%v", n)
				}
			}
			if refusals != 1 {
				t.Errorf("%d refusals, not one: %v", refusals, res.Notes)
			}
		})
	}
}

// Files is what there is in the folder of a compose file.
type Files map[string]string

// Open is for source.File.Open.
func (f Files) Open(name string) ([]byte, error) {
	text, there := f[name]
	if !there {
		return nil, fs.ErrNotExist
	}
	return []byte(text), nil
}

// EnvMark is between a compose file and the .env beside it.
const EnvMark = "\n#.env\n"

// readSource reads a file as verge import does.
func readSource(t *testing.T, file string) importer.Source {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(file)
	return importer.Source{Name: filepath.ToSlash(file), Data: data, Folder: filepath.Base(dir),
		Open: func(path string) ([]byte, error) {
			root, err := os.OpenRoot(dir)
			if err != nil {
				return nil, err
			}
			defer func() { _ = root.Close() }()
			return root.ReadFile(path)
		}}
}

// Of imports one text.
func Of(text string, o importer.Options) (*importer.Result, error) {
	return importer.Import([]importer.Source{{Name: "in.yaml", Data: []byte(text), Folder: "shop"}}, o)
}

// Says demands a note with a text in it, at a line.
func Says(t *testing.T, res *importer.Result, level importer.Level, line int, text string) {
	t.Helper()
	for _, n := range res.Notes {
		if n.Level == level && n.Line == line && strings.Contains(n.String(), text) {
			return
		}
	}
	t.Errorf("no %s with %q in line %d; there are %v", level, text, line, res.Notes)
}

// Refused demands that nothing was made, with a note.
func Refused(t *testing.T, text string, line int, why string) {
	t.Helper()
	res, err := Of(text, importer.Options{})
	if !errors.Is(err, importer.ErrRefused) || len(res.Apps) > 0 {
		t.Errorf("it was not refused: %v, %v", err, res.Apps)
	}
	Says(t, res, importer.Refused, line, why)
}
