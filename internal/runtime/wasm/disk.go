package wasm

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/atomicfile"
)

// What is in the directory of a module, which has the name of its digest.
const (
	moduleFile = "module.wasm" // bounded: see bound
	shellFile  = "shell.wasm"  // what is loaded with its machine code: see shell
	sealFile   = "seal.json"
	codeDir    = "code" // of the compiler, which has names of its own in it
	scratchDir = "scratch"
)

// layoutVersion changes when something else is in these files.
const layoutVersion = 1

// seal says what the files of a module must be: the machine code among them is
// executed, and the compiler trusts it. A half-written or damaged one does not fit.
type seal struct {
	V      int    `json:"v"`
	Module sum    `json:"module"`
	Memory int64  `json:"memory"` // that it begins with
	Code   []file `json:"code,omitempty"`
	// Shell is what the machine code is loaded with; the module itself where Whole says
	// so. Code without either is not used.
	Shell sum  `json:"shell,omitzero"`
	Whole bool `json:"whole,omitempty"`
}

type file struct {
	Path string `json:"path"` // below code
	sum
}

type sum struct {
	Size int64  `json:"size"`
	CRC  uint32 `json:"crc"` // Castagnoli
}

// disk is where modules are kept: dir/<digest>/….
type disk struct {
	dir   string
	most  int64 // bytes
	least int   // bytes of a module from which on a shell of it is made
}

// leastShell: what is smaller is validated in less than a millisecond, and comes to
// the disk in less without a shell.
const leastShell = 64 << 10

// errDamaged: what was kept of a module is of no use; it has to be taken again from
// where it came.
var errDamaged = errors.New("its copy on this worker is damaged")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sumOf(b []byte) sum { return sum{int64(len(b)), crc32.Checksum(b, castagnoli)} }

// sumOfFile is that of what is in a file. It passes through a small buffer: memory for
// all of it takes longer to get than the file to read.
func sumOfFile(path string) (sum, error) {
	f, err := os.Open(path)
	if err != nil {
		return sum{}, err
	}
	defer f.Close() //nolint:errcheck // nothing is written to it
	h := crc32.New(castagnoli)
	st, err := f.Stat()
	if err != nil {
		return sum{}, err
	}
	n, err := io.CopyBuffer(h, struct{ io.Reader }{f}, make([]byte, min(max(st.Size(), 1), 256<<10)))
	return sum{n, h.Sum32()}, err
}

func (d disk) path(digest string, names ...string) string {
	return filepath.Join(append([]string{d.dir, digest}, names...)...)
}

// take copies a module from where it is, unless it is here. It returns its digest.
func (d disk) take(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // nothing is written to it
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return "", errors.Join(err, fmt.Errorf("%s is no file", path))
	}
	b, err := io.ReadAll(io.LimitReader(f, MaxModule+1))
	if err != nil {
		return "", err
	}
	h := sha256.Sum256(b)
	digest := hex.EncodeToString(h[:])
	if _, err := d.seal(digest); err == nil {
		return digest, nil
	}
	b, memory, err := bound(b)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	if err := atomicfile.MkdirAll(d.path(digest), 0o700); err != nil {
		return "", err
	}
	if err := atomicfile.Write(d.path(digest, moduleFile), b, 0o600); err != nil {
		return "", err
	}
	return digest, d.write(digest, seal{Module: sumOf(b), Memory: memory})
}

func (d disk) seal(digest string) (seal, error) {
	var s seal
	b, err := atomicfile.ReadBounded(d.path(digest, sealFile), 1<<20)
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err == nil && s.V != layoutVersion {
		err = fmt.Errorf("its files are of version %d", s.V)
	}
	return s, err
}

func (d disk) write(digest string, s seal) error {
	s.V = layoutVersion
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return atomicfile.Write(d.path(digest, sealFile), b, 0o600)
}

// module reads a module as a whole. Where it is damaged it is removed: it has to be
// taken again. What cannot be read now, for want of descriptors for example, stays: where
// it came from may be out of reach.
func (d disk) module(digest string) ([]byte, seal, error) {
	s, err := d.seal(digest)
	if unread := (*fs.PathError)(nil); errors.As(err, &unread) && !errors.Is(err, fs.ErrNotExist) {
		return nil, s, err
	}
	if err != nil {
		return nil, s, errors.Join(errDamaged, err, os.RemoveAll(d.path(digest)))
	}
	b, err := atomicfile.ReadBounded(d.path(digest, moduleFile), MaxModule+maxTable)
	if err == nil && sumOf(b) != s.Module {
		err = errors.Join(errDamaged, os.RemoveAll(d.path(digest)))
	} else if errors.Is(err, fs.ErrNotExist) {
		err = errDamaged
	}
	return b, s, err
}

// hasCode says whether there seems to be machine code for a module: files as long as
// they must be. Whether it can be trusted is seen when it is loaded, since that takes
// milliseconds.
func (d disk) hasCode(digest string, s seal) bool {
	for _, f := range s.Code {
		if st, err := os.Stat(d.path(digest, codeDir, f.Path)); err != nil || st.Size() != f.Size {
			return false
		}
	}
	return len(s.Code) > 0 && (s.Whole || s.Shell.Size > 0)
}

// loadable reads what machine code is loaded with. False where there is no code that
// can be trusted.
func (d disk) loadable(digest string) ([]byte, seal, bool) {
	s, err := d.seal(digest)
	if err != nil || !s.Whole && s.Shell.Size == 0 {
		return nil, s, false
	}
	trusted := make(chan bool, 1)
	go func() { trusted <- d.code(digest, s) }() // megabytes, as below
	name, want := shellFile, s.Shell
	if s.Whole {
		name, want = moduleFile, s.Module
	}
	b, err := atomicfile.ReadBounded(d.path(digest, name), MaxModule+maxTable)
	fits := err == nil && sumOf(b) == want
	return b, s, <-trusted && fits
}

// code says whether there is machine code for a module that can be trusted. What
// can't is removed.
func (d disk) code(digest string, s seal) bool {
	have, err := d.codeFiles(digest, func(string) bool { return true })
	if err == nil && len(have) > 0 && slices.Equal(have, s.Code) {
		return true
	}
	d.dropCode(digest) // else the compiler finds it and says so
	return false
}

// dropCode removes the machine code of a module.
func (d disk) dropCode(digest string) { _ = os.RemoveAll(d.path(digest, codeDir)) }

// keepCode seals the machine code of a module that the compiler has left, to be loaded
// with a shell: name gives the name under which the library looks for the code of what
// it is given, below codeDir. Where that can't be done it is kept to be loaded with the
// module as a whole. There is none where modules are interpreted.
func (d disk) keepCode(digest string, module []byte, name func(shell []byte, scratch string) (string, error)) error {
	s, err := d.seal(digest)
	if err != nil {
		return err
	}
	have, err := d.codeFiles(digest, func(string) bool { return true })
	if err != nil || len(have) == 0 {
		return err
	}
	s.Code, s.Shell, s.Whole = have, sum{}, true
	if len(module) < d.least {
		return d.write(digest, s)
	}
	small, err := shell(module, digest)
	if err == nil && len(have) != 1 {
		err = fmt.Errorf("there are %d files of code", len(have))
	}
	var to string
	if err == nil {
		scratch := d.path(digest, scratchDir)
		to, err = name(small, scratch)
		err = errors.Join(err, os.RemoveAll(scratch))
	}
	if err == nil {
		err = atomicfile.Write(d.path(digest, shellFile), small, 0o600)
	}
	if err == nil {
		err = os.Rename(d.path(digest, codeDir, have[0].Path), d.path(digest, codeDir, to))
	}
	if err == nil {
		s.Code[0].Path, s.Shell, s.Whole = to, sumOf(small), false
	}
	return errors.Join(err, d.write(digest, s))
}

// codeStat is what the machine code of a seal is like now, to see whether the library
// has put something else in its place.
func (d disk) codeStat(digest string, s seal) (out []os.FileInfo) {
	for _, f := range s.Code {
		st, err := os.Stat(d.path(digest, codeDir, f.Path))
		if err != nil {
			return nil
		}
		out = append(out, st)
	}
	return out
}

// unchanged says whether there is exactly the machine code that was there before.
func (d disk) unchanged(digest string, s seal, before []os.FileInfo) bool {
	after := d.codeStat(digest, s)
	n := 0
	err := filepath.WalkDir(d.path(digest, codeDir), func(_ string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			n++
		}
		return err
	})
	return err == nil && n == len(s.Code) && slices.EqualFunc(before, after, func(a, b os.FileInfo) bool {
		return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
	})
}

// codeFiles are the files with machine code that are wanted, by name.
func (d disk) codeFiles(digest string, wanted func(name string) bool) ([]file, error) {
	var out []file
	root := d.path(digest, codeDir)
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil || !wanted(name) {
			return err
		}
		total, err := sumOfFile(path)
		if err != nil {
			return err
		}
		out = append(out, file{name, total})
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return out, err
}

// touch notes that a module was loaded, so that it is among the last to go. Once a
// day is enough for that.
func (d disk) touch(digest string, now time.Time) {
	if st, err := os.Stat(d.path(digest)); err == nil && now.Sub(st.ModTime()) > 24*time.Hour {
		_ = os.Chtimes(d.path(digest), now, now) // the order is all that suffers
	}
}

// size of what is kept of a module.
func (d disk) size(digest string) int64 {
	s, err := d.seal(digest)
	if err != nil {
		return 0
	}
	n := s.Module.Size + s.Shell.Size
	for _, f := range s.Code {
		n += f.Size
	}
	return n
}

// clear removes modules until the rest is no more than there may be: those that were
// not used for the longest time first, and none of those that are in use. It returns
// how many bytes are left.
func (d disk) clear(used func(digest string) bool) (left int64, err error) {
	entries, err := os.ReadDir(d.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	type kept struct {
		digest string
		size   int64
		at     time.Time
	}
	var all []kept
	var total int64
	for _, e := range entries {
		st, err := e.Info()
		if err != nil || len(e.Name()) != 2*sha256.Size || strings.Trim(e.Name(), "0123456789abcdef") != "" {
			continue // not ours, or gone
		}
		k := kept{e.Name(), d.size(e.Name()), st.ModTime()}
		total += k.size
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b kept) int { return a.at.Compare(b.at) })
	var errs []error
	for _, k := range all {
		if total <= d.most && k.size > 0 || used(k.digest) {
			continue
		}
		errs = append(errs, os.RemoveAll(d.path(k.digest)))
		total -= k.size
	}
	return total, errors.Join(errs...)
}
