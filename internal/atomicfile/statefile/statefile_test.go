package statefile_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/atomicfile/statefile"
	"github.com/verge-edge/verge/internal/obs"
)

// card is of form 3; form 1 had one name, form 2 a list of names without an owner.
type card struct {
	V     int      `json:"v"`
	Names []string `json:"names"`
	Owner string   `json:"owner,omitempty"`
}

func kindOf(version int) *statefile.Kind {
	return &statefile.Kind{What: "a card", Max: 1 << 10, Version: version, Steps: map[int]statefile.Step{
		1: statefile.Fields(2, func(f map[string]json.RawMessage) error {
			var name string
			if err := json.Unmarshal(f["name"], &name); err != nil {
				return err
			}
			delete(f, "name")
			names, err := json.Marshal([]string{name})
			f["names"] = names
			return err
		}),
		2: statefile.Fields(3, func(f map[string]json.RawMessage) error {
			f["owner"] = json.RawMessage(`"nobody"`)
			return nil
		}),
	}}
}

func write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func holds(t *testing.T, path, content string) {
	t.Helper()
	if b, err := os.ReadFile(path); err != nil || string(b) != content {
		t.Errorf("%s has %q, %v; want %q", filepath.Base(path), b, err, content)
	}
}

func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		out = append(out, e.Name())
	}
	return out
}

const first = `{"v":1,"name":"amy"}`

func TestAnOlderFileIsReadAndKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "card.json")
	write(t, path, first, 0o640)
	k := kindOf(3)
	var c card
	kept, err := k.Read(path, &c)
	if err != nil || c.V != 3 || !slices.Equal(c.Names, []string{"amy"}) || c.Owner != "nobody" || kept != path+
		".v1.bak" {
		t.Fatalf("%+v, %q, %v", c, kept, err)
	}
	if got := names(t, filepath.Dir(path)); !slices.Equal(got, []string{"card.json"}) {
		t.Errorf("reading left %v", got)
	}
	holds(t, path, first)
	for range 2 { // the second write keeps nothing more
		if err := k.Write(path, c); err != nil {
			t.Fatal(err)
		}
	}
	holds(t, path, `{"by":"`+obs.Version()+`","v":3,"names":["amy"],"owner":"nobody"}`)
	holds(t, kept, first)
	if st, err := os.Stat(kept); err != nil || st.Mode().Perm() != 0o640 {
		t.Errorf("the copy: %v, %v", st, err)
	}
	if got := names(t, filepath.Dir(path)); len(got) != 2 {
		t.Errorf("there are %v", got)
	}
	// An operator goes back to the version before.
	old := kindOf(1)
	var newer *statefile.NewerError
	if _, err := old.Load(path); !errors.As(err, &newer) || newer.Kept != kept || newer.By != obs.Version() {
		t.Fatalf("%v, %+v", err, newer)
	}
	if err := os.Rename(kept, path); err != nil {
		t.Fatal(err)
	}
	if l, err := old.Load(path); err != nil || string(l.Data) != first || l.Kept != "" {
		t.Errorf("%s, %v", l.Data, err)
	}
}

// Whatever ends the program after the copy was made, the same is done again.
func TestACrashBetweenCopyAndWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "card.json")
	write(t, path, first, 0o600)
	crash := errors.New("the power went")
	for range 2 {
		k := kindOf(3) // of another process
		var c card
		if _, err := k.Read(path, &c); err != nil {
			t.Fatal(err)
		}
		if err := k.Put(path, []byte(`{"v":3}`),
			func(string, []byte, os.FileMode) error { return crash }); !errors.Is(err, crash) {
			t.Fatal(err)
		}
		holds(t, path, first)
		holds(t, path+".v1.bak", first)
	}
	k := kindOf(3)
	var c card
	if _, err := k.Read(path, &c); err != nil || c.Owner != "nobody" {
		t.Fatal(c, err)
	}
	if err := k.Write(path, c); err != nil {
		t.Fatal(err)
	}
	holds(t, path+".v1.bak", first)
}

// What cannot be kept is not written over.
func TestACopyThatCannotBeMade(t *testing.T) {
	path := filepath.Join(t.TempDir(), strings.Repeat("n", 250))
	write(t, path, first, 0o600) // its name is so long that the copy cannot have one
	k := kindOf(3)
	if _, err := k.Load(path); err != nil {
		t.Fatal(err)
	}
	err := k.Put(path, []byte(`{"v":3}`), func(string, []byte, os.FileMode) error {
		t.Error("it was written over")
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "cannot be kept as") {
		t.Error(err)
	}
	holds(t, path, first)
}

func TestCopiesAreBoundedAndStay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "card.json")
	steps := map[int]statefile.Step{}
	for n := range 5 {
		steps[n] = statefile.Fields(n+1, nil)
	}
	write(t, path, `{"names":["of form 0"]}`, 0o600)
	write(t, path+".v0.bak", "an earlier copy", 0o600)
	write(t, path+".v9.bak.txt", "somebody else's", 0o600)
	for version := 1; version <= 4; version++ {
		k := &statefile.Kind{What: "a card", Max: 1 << 10, Version: version, Steps: steps}
		var c card
		if _, err := k.Read(path, &c); err != nil || c.V != version || c.Names[0] != "of form 0" {
			t.Fatalf("%d: %+v, %v", version, c, err)
		}
		if err := k.Write(path, c); err != nil {
			t.Fatal(err)
		}
		if version == 1 {
			holds(t, path+".v0.bak", "an earlier copy")
		}
	}
	if got := names(t, filepath.Dir(path)); !slices.Equal(got,
		[]string{"card.json", "card.json.v2.bak", "card.json.v3.bak", "card.json.v9.bak.txt"}) {
		t.Errorf("there are %v", got)
	}
}

func TestANewerFileIsRefusedAndLeft(t *testing.T) {
	path := filepath.Join(t.TempDir(), "card.json")
	const content = `{"by":"v9.1","v":4,"persons":{}}`
	write(t, path, content, 0o600)
	k := kindOf(3)
	var newer *statefile.NewerError
	_, err := k.Load(path)
	if !errors.As(err, &newer) || statefile.Damaged(err) {
		t.Fatal(err)
	}
	for _, word := range []string{"a card", path, "form 4", `"v9.1"`, obs.Version(), "up to 3",
		"start that program again"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q is not in: %v", word, err)
		}
	}
	if err := k.Write(path, card{V: 3}); !errors.As(err, &newer) {
		t.Errorf("written over: %v", err)
	}
	holds(t, path, content)
	if err := os.Remove(path); err != nil { // an operator gives it up
		t.Fatal(err)
	}
	if err := k.Write(path, card{V: 3}); err != nil {
		t.Error(err)
	}
}

// A form is read one version before it is written, so that one can go back; before that
// version writes, it keeps what the newer one wrote.
func TestTheVersionBefore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "card.json")
	const content = `{"v":3,"names":["amy"],"owner":"bob"}`
	write(t, path, content, 0o600)
	k := kindOf(2)
	k.Reads = 3
	var c card
	kept, err := k.Read(path, &c)
	if err != nil || c.Owner != "bob" {
		t.Fatal(c, err)
	}
	c.V, c.Owner = 2, ""
	if err := k.Write(path, c); err != nil {
		t.Fatal(err)
	}
	holds(t, kept, content)
	if l, err := k.Load(path); err != nil || l.From != 2 {
		t.Error(l, err)
	}
}

func TestWhatIsNoFileOfState(t *testing.T) {
	path := filepath.Join(t.TempDir(), "card.json")
	k := kindOf(3)
	if _, err := k.Load(path); !errors.Is(err, fs.ErrNotExist) || statefile.Damaged(err) {
		t.Error(err)
	}
	for what, content := range map[string]string{
		"empty": "", "rubbish": "\x00\x01", "a list": "[1]", "null": "null", "half": `{"names":["a`,
		"half a number": `{"v":`,
		"a text":        `{"v":"1"}`, "below zero": `{"v":-1}`, "a fraction": `{"v":1.5}`,
		"too long":       strings.Repeat(" ", 2<<10),
		"without a step": `{"names":[]}`, "a step that fails": `{"v":1,"name":5}`,
		"of another kind": `{"v":3,"names":"amy"}`, "cut after the number": `{"v":3,`,
	} {
		write(t, path, content, 0o600)
		var c card
		if _, err := k.Read(path, &c); !statefile.Damaged(err) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", what, err)
		}
		holds(t, path, content)
	}
	// Damage is its owner's to set aside; what could be an older form is kept all the same.
	write(t, path, `{"v":1,"name":5}`, 0o600)
	if _, err := k.Load(path); !statefile.Damaged(err) {
		t.Error(err)
	}
	if err := k.Put(path, []byte(`{"v":3}`), atomicfile.Write); err != nil {
		t.Error(err)
	}
	holds(t, path+".v1.bak", `{"v":1,"name":5}`)
}
