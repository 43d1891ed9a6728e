package importer

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/verge-edge/verge/api"
)

// envMark is between a compose file and the .env beside it.
const envMark = "\n#.env\n"

// fuzz seeds f with examples, and demands of whatever comes that what is made is valid,
// and that nothing is made where something is refused.
func fuzz(f *testing.F, kind Kind, patterns ...string) {
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
	f.Add([]byte(bomb()))
	for _, text := range expansions(2000) {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		// Files that it names are there, and have the same in them.
		// What comes after a line of its own is .env.
		data, env, given := bytes.Cut(data, []byte(envMark))
		beside := func(path string) ([]byte, error) {
			if path == dotEnv && !given {
				return nil, fs.ErrNotExist
			} else if path == dotEnv {
				return env, nil
			}
			return data, nil
		}
		res, err := Import([]Source{{Name: "in.yaml", Data: data, Open: beside}}, Options{Kind: kind})
		if err == nil && len(res.Apps) == 0 || err != nil && len(res.Apps) > 0 {
			t.Errorf("%d applications and %v", len(res.Apps), err)
		}
		for _, app := range res.Apps {
			if _, _, err := api.Parse(app.Name, app.Source); err != nil {
				t.Errorf("%v\n%s", err, app.Source)
			}
		}
	})
}

func FuzzCompose(f *testing.F) {
	fuzz(f, Compose, "testdata/compose/*/compose.yaml", "testdata/cases/compose-*.yaml", "testdata/projects/*/compose.yaml")
}

func FuzzOakestra(f *testing.F) {
	fuzz(f, Oakestra, "testdata/oakestra/*.json", "testdata/cases/oakestra-*.json")
}

func FuzzKubernetes(f *testing.F) {
	fuzz(f, Kubernetes, "testdata/kubernetes/*.yaml", "testdata/cases/kubernetes-*.yaml")
}
