// Package statefile reads and writes JSON files of state whose form may change from
// one version of the program to the next. Each has the number of its form ("v") and the
// version of the program that wrote it ("by").
//
// It promises:
//
//  1. A file of an older form is read: pure functions make the next form of it, one
//     after the other.
//  2. Before the first write of the new form the old file is kept, byte by byte and with
//     its mode, as NAME.vN.bak. One that is there is never written again. The two latest
//     are kept.
//  3. A file of a form that this program does not know is refused with a *NewerError and
//     left as it is. It is not written either, until it has been taken away.
//  4. Reading writes nothing.
//
// What one version of the program writes the version before it must read. So a new form
// is read (Kind.Reads) one version before it is written (Kind.Version).
package statefile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/obs"
)

// keptForms is of how many forms a copy is kept.
const keptForms = 2

// logger is told of each file that is kept. It is of the process, as its files are.
var logger atomic.Pointer[slog.Logger]

func init() { LogTo(slog.New(slog.DiscardHandler)) }

// LogTo says where it is told that a file was kept; nowhere at first.
func LogTo(l *slog.Logger) { logger.Store(l) }

// Step makes the next form of a file. It is a pure function.
type Step func(old []byte) ([]byte, error)

// Kind is a kind of file. Its owner loads a file before it writes it. It may be used
// concurrently, for different files.
type Kind struct {
	// What is in it, in words; Max bounds a file, in bytes.
	What string
	Max  int64
	// Version is the form that is written. Reads is the newest that is understood as it
	// is; 0 is Version.
	Version, Reads int
	// Steps has at n what makes form n+1 of form n. A form below Version without a step
	// is not understood.
	Steps map[int]Step

	mu sync.Mutex
	// others are files that were loaded and are not of form Version, by path: what has
	// to be kept before they are written, or the error of those that must not be.
	others map[string]other
}

type other struct {
	version int
	newer   *NewerError
}

// NewerError is the refusal of a file of a form that this program does not know.
type NewerError struct {
	What, Path string
	Version    int    // of the file
	By         string // the version of the program that wrote it; "" if it does not say
	Reads      int    // the newest form that this program reads
	Kept       string // a copy that it reads; "" where there is none
}

// Error says what the file is, who wrote it, and what to do.
func (e *NewerError) Error() string {
	by := "a newer program"
	if e.By != "" {
		by = fmt.Sprintf("version %.40q of the program", e.By)
	}
	remedy := "start that program again, or one that is as new"
	if e.Kept != "" {
		remedy += ", or go back to what was before it: mv " + e.Kept + " " + e.Path
	}
	return fmt.Sprintf("%s in %s is of form %d, written by %s; this one (%s) reads forms up to %d, and leaves the "+
		"file as it is: %s",
		e.What, e.Path, e.Version, by, obs.Version(), e.Reads, remedy)
}

// errContent is wrapped by errors about what is in a file.
var errContent = errors.New("it cannot be understood")

// Damaged says whether an error of Load or Read is about the content of the file, and
// not that it is missing, newer, or cannot be read now.
func Damaged(err error) bool {
	return errors.Is(err, errContent) || errors.Is(err, atomicfile.ErrTooLarge)
}

// Loaded is what was read of a file.
type Loaded struct {
	// Data is of the form that the kind writes, or of a newer one that it reads.
	Data []byte
	// Kept is where the file is copied to before it is written, "" where it does not have
	// to be: it was of form From.
	Kept string
	From int
}

// Load reads a file. One that is not there is an error that wraps os.ErrNotExist, one
// that this program does not know yet a *NewerError; for others see Damaged.
func (k *Kind) Load(path string) (Loaded, error) {
	data, err := atomicfile.ReadBounded(path, k.Max)
	if err != nil {
		k.note(path, nil)
		return Loaded{}, err
	}
	v, by, err := versionOf(data)
	if err != nil {
		k.note(path, nil)
		return Loaded{}, fmt.Errorf("%s in %s: %w: %w", k.What, path, errContent, err)
	}
	if reads := max(k.Version, k.Reads); v > reads {
		e := &NewerError{What: k.What, Path: path, Version: v, By: by, Reads: reads, Kept: latest(path, reads)}
		k.note(path, &other{v, e})
		return Loaded{}, e
	}
	l := Loaded{Data: data, From: v}
	k.note(path, nil)
	if v != k.Version { // kept before it is written, whatever becomes of the steps
		l.Kept = backupOf(path, v)
		k.note(path, &other{version: v})
	}
	for n := v; n < k.Version; n++ {
		step := k.Steps[n]
		if step == nil {
			return Loaded{}, fmt.Errorf("%s in %s: %w: this program does not know form %d of it", k.What, path,
				errContent, n)
		}
		if l.Data, err = step(l.Data); err != nil {
			return Loaded{}, fmt.Errorf("%s in %s: %w: of form %d, which cannot be made form %d: %w", k.What, path,
				errContent, n, n+1, err)
		}
	}
	return l, nil
}

// Read is Load into the value that into points to. It returns where the file is copied
// to before it is written, see Loaded.
func (k *Kind) Read(path string, into any) (kept string, err error) {
	l, err := k.Load(path)
	if err != nil {
		return "", err
	}
	if err := json.Unmarshal(l.Data, into); err != nil {
		return "", fmt.Errorf("%s in %s: %w: %w", k.What, path, errContent, err)
	}
	return l.Kept, nil
}

// Write replaces the file by v, whose JSON is an object of form Version; it is on disk
// when this returns.
func (k *Kind) Write(path string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", k.What, err)
	}
	return k.Put(path, data, atomicfile.Write)
}

// Put replaces the file by data by means of put, which is atomicfile.Write or Replace. If
// what was loaded must be kept and cannot be, or must not be replaced, nothing is written.
func (k *Kind) Put(path string, data []byte, put func(path string, data []byte, perm os.FileMode) error) error {
	k.mu.Lock()
	o, is := k.others[path]
	k.mu.Unlock()
	if is {
		if err := k.keep(path, o); err != nil {
			return err
		}
	}
	if err := put(path, signed(data), 0o600); err != nil {
		return err
	}
	if is {
		k.note(path, nil)
	}
	return nil
}

// note remembers what a file is, nil: of form Version, damaged, or not there.
func (k *Kind) note(path string, o *other) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if o == nil {
		delete(k.others, path)
		return
	}
	if k.others == nil {
		k.others = map[string]other{}
	}
	k.others[path] = *o
}

// keep copies a file that is about to be written in another form, unless a copy of the
// form that it has is there.
func (k *Kind) keep(path string, o other) error {
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // somebody took it away
	}
	if err == nil && o.newer != nil {
		return o.newer
	}
	to := backupOf(path, o.version)
	if err == nil {
		_, err = os.Lstat(to)
	}
	if errors.Is(err, fs.ErrNotExist) {
		var old []byte
		if old, err = atomicfile.ReadBounded(path, k.Max); err == nil {
			err = atomicfile.Write(to, old, st.Mode().Perm())
		}
	}
	if err == nil {
		err = prune(path)
	}
	if err == nil {
		logger.Load().Info("a file is written in another form than it had, which is kept", "file", path, "kind", k.What,
			"form", k.Version, "had", o.version, "kept", filepath.Base(to))
	}
	if err != nil {
		return fmt.Errorf("%s in %s is not written in its new form, since the old one cannot be kept as %s: %w", k.What,
			path, filepath.Base(to), err)
	}
	return nil
}

func backupOf(path string, version int) string { return fmt.Sprintf("%s.v%d.bak", path, version) }

// backups are the forms of which there is a copy, the oldest first.
func backups(path string) []int {
	list, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil
	}
	var out []int
	for _, e := range list {
		rest, ours := strings.CutPrefix(e.Name(), filepath.Base(path)+".v")
		if number, is := strings.CutSuffix(rest, ".bak"); ours && is {
			if v, err := strconv.Atoi(number); err == nil && strconv.Itoa(v) == number {
				out = append(out, v)
			}
		}
	}
	slices.Sort(out)
	return out
}

// latest is the copy of the newest form up to most; "" if there is none.
func latest(path string, most int) string {
	all := slices.DeleteFunc(backups(path), func(v int) bool { return v > most })
	if len(all) == 0 {
		return ""
	}
	return backupOf(path, all[len(all)-1])
}

// prune removes all copies but those of the latest forms.
func prune(path string) error {
	all := backups(path)
	for _, v := range all[:max(0, len(all)-keptForms)] {
		if err := os.Remove(backupOf(path, v)); err != nil {
			return err
		}
	}
	return nil
}

// versionOf reads the form of a file, which stands near its beginning, and who wrote it.
// A file that does not say is of form 0.
func versionOf(data []byte) (v int, by string, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return 0, "", errors.Join(errors.New("it is no JSON object"), err)
	}
	for d.More() {
		key, err := d.Token()
		var skipped json.RawMessage
		switch {
		case err != nil:
		case key == "v":
			if err = d.Decode(&v); err == nil && v < 0 {
				err = fmt.Errorf("%d is not the number of a form", v)
			}
			return v, by, err // what follows it is read by whoever uses it
		case key == "by":
			err = d.Decode(&by)
		default:
			err = d.Decode(&skipped)
		}
		if err != nil {
			return 0, "", err
		}
	}
	_, err = d.Token() // it ends
	return 0, by, err
}

// signed is a JSON object that says first which version of the program wrote it.
func signed(data []byte) []byte {
	rest, is := bytes.CutPrefix(data, []byte("{"))
	by, err := json.Marshal(obs.Version())
	if !is || err != nil || len(bytes.TrimSpace(rest)) < 2 {
		return data // nothing is in it
	}
	return slices.Concat([]byte(`{"by":`), by, []byte(","), rest)
}

// Fields is a Step to form next that changes fields of a JSON object; change may be nil.
func Fields(next int, change func(fields map[string]json.RawMessage) error) Step {
	return func(old []byte) ([]byte, error) {
		was := map[string]json.RawMessage{}
		if err := json.Unmarshal(old, &was); err != nil {
			return nil, err
		}
		fields := maps.Clone(was)
		if change != nil {
			if err := change(fields); err != nil {
				return nil, err
			}
		}
		fields["v"] = json.RawMessage(strconv.Itoa(next))
		return json.Marshal(fields)
	}
}
