package importertest

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/verge-edge/verge/api/descriptor"
	"github.com/verge-edge/verge/internal/importer"
	"github.com/verge-edge/verge/internal/importer/compose/dotenv"
)

// Fuzz seeds f with examples, and demands of whatever comes that what is made is valid,
// and that nothing is made where something is refused.
func Fuzz(f *testing.F, kind importer.Kind, seeds map[string]string, patterns ...string) {
	for _, p := range patterns {
		files, err := filepath.Glob(p)
		if err != nil || len(files) == 0 {
			f.Fatalf("%s: %v", p, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Add([]byte(Bomb()))
	for _, text := range seeds {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		// Files that it names are there, and have the same in them.
		// What comes after a line of its own is .env.
		data, env, given := bytes.Cut(data, []byte(EnvMark))
		beside := func(path string) ([]byte, error) {
			if path == dotenv.DotEnv && !given {
				return nil, fs.ErrNotExist
			} else if path == dotenv.DotEnv {
				return env, nil
			}
			return data, nil
		}
		res, err := importer.Import([]importer.Source{{Name: "in.yaml", Data: data, Open: beside}},
			importer.Options{Kind: kind})
		if err == nil && len(res.Apps) == 0 || err != nil && len(res.Apps) > 0 {
			t.Errorf("%d applications and %v", len(res.Apps), err)
		}
		for _, app := range res.Apps {
			if _, _, err := descriptor.Parse(app.Name, app.Source); err != nil {
				t.Errorf("%v\n%s", err, app.Source)
			}
		}
	})
}
