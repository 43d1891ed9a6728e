package modulestore

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
	"github.com/verge-edge/verge/internal/runtime/wasm/bytecode"
)

// What is in the directory of a module, which has the name of its digest.
const (
	moduleFile = "module.wasm" // with bounded tables: see bytecode.Bound
	shellFile  = "shell.wasm"  // loaded with the machine code: see bytecode.Shell
	sealFile   = "seal.json"
	CodeDir    = "code" // the compiler names the files in it
	scratchDir = "scratch"
)

// layoutVersion changes when something else is in these files.
const layoutVersion = 1

// Seal has the sizes and checksums of a module's files. The compiler trusts machine code that
// it finds, so a file that does not fit its seal is never loaded.
type Seal struct {
	V      int    `json:"v"`
	Module Sum    `json:"module"`
	Memory int64  `json:"memory"` // initial, in bytes
	Code   []File `json:"code,omitempty"`
	// Shell is loaded with the machine code; if Whole, the module itself is. Code without
	// either is not used.
	Shell Sum  `json:"shell,omitzero"`
	Whole bool `json:"whole,omitempty"`
}

// File is a file of machine code.
type File struct {
	Path string `json:"path"` // below code
	Sum
}

// Sum is the size and the checksum of a file.
type Sum struct {
	Size int64  `json:"size"`
	CRC  uint32 `json:"crc"` // Castagnoli
}

// Disk is where modules are kept: dir/<digest>/….
type Disk struct {
	Dir   string
	Most  int64 // bytes
	Least int   // bytes of the smallest module that gets a shell
}

// LeastShell is the default of Least: a smaller module is validated in under a millisecond and
// needs less disk without a shell.
const LeastShell = 64 << 10

// ErrDamaged: the stored copy of a module does not fit its seal; Take it again from its source.
var ErrDamaged = errors.New("its copy on this worker is damaged")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumOf is the checksum of b.
func sumOf(b []byte) Sum { return Sum{int64(len(b)), crc32.Checksum(b, castagnoli)} }

// sumOfFile is the checksum of a file. It reads through a small buffer, since allocating
// memory for the whole file takes longer than reading it.
func sumOfFile(path string) (Sum, error) {
	f, err := os.Open(path)
	if err != nil {
		return Sum{}, err
	}
	defer f.Close() //nolint:errcheck // nothing is written to it
	h := crc32.New(castagnoli)
	st, err := f.Stat()
	if err != nil {
		return Sum{}, err
	}
	n, err := io.CopyBuffer(h, struct{ io.Reader }{f}, make([]byte, min(max(st.Size(), 1), 256<<10)))
	return Sum{n, h.Sum32()}, err
}

// Path is the path of a file of a module.
func (d Disk) Path(digest string, names ...string) string {
	return filepath.Join(append([]string{d.Dir, digest}, names...)...)
}

// Take copies a module from a file unless the store has it, and returns its digest.
func (d Disk) Take(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // nothing is written to it
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return "", errors.Join(err, fmt.Errorf("%s is no file", path))
	}
	b, err := io.ReadAll(io.LimitReader(f, bytecode.MaxModule+1))
	if err != nil {
		return "", err
	}
	h := sha256.Sum256(b)
	digest := hex.EncodeToString(h[:])
	if _, err := d.Seal(digest); err == nil {
		return digest, nil
	}
	b, memory, err := bytecode.Bound(b)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	if err := atomicfile.MkdirAll(d.Path(digest), 0o700); err != nil {
		return "", err
	}
	if err := atomicfile.Write(d.Path(digest, moduleFile), b, 0o600); err != nil {
		return "", err
	}
	return digest, d.Write(digest, Seal{Module: sumOf(b), Memory: memory})
}

// Seal reads the seal of a module.
func (d Disk) Seal(digest string) (Seal, error) {
	var s Seal
	b, err := atomicfile.ReadBounded(d.Path(digest, sealFile), 1<<20)
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err == nil && s.V != layoutVersion {
		err = fmt.Errorf("its files are of version %d", s.V)
	}
	return s, err
}

// Write writes the seal of a module.
func (d Disk) Write(digest string, s Seal) error {
	s.V = layoutVersion
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return atomicfile.Write(d.Path(digest, sealFile), b, 0o600)
}

// Module reads a module. It removes a damaged one, which must be taken again. One that cannot
// be read now, for example for lack of file descriptors, stays: its source may be out of reach.
func (d Disk) Module(digest string) ([]byte, Seal, error) {
	s, err := d.Seal(digest)
	if unread := (*fs.PathError)(nil); errors.As(err, &unread) && !errors.Is(err, fs.ErrNotExist) {
		return nil, s, err
	}
	if err != nil {
		return nil, s, errors.Join(ErrDamaged, err, os.RemoveAll(d.Path(digest)))
	}
	b, err := atomicfile.ReadBounded(d.Path(digest, moduleFile), bytecode.MaxModule+bytecode.MaxTable)
	if err == nil && sumOf(b) != s.Module {
		err = errors.Join(ErrDamaged, os.RemoveAll(d.Path(digest)))
	} else if errors.Is(err, fs.ErrNotExist) {
		err = ErrDamaged
	}
	return b, s, err
}

// HasCode says whether a module's files of machine code have the sizes of its seal. Checksums
// are compared when the code is loaded, since that takes milliseconds.
func (d Disk) HasCode(digest string, s Seal) bool {
	for _, f := range s.Code {
		if st, err := os.Stat(d.Path(digest, CodeDir, f.Path)); err != nil || st.Size() != f.Size {
			return false
		}
	}
	return len(s.Code) > 0 && (s.Whole || s.Shell.Size > 0)
}

// Loadable reads what is loaded with the machine code: the shell or the module. It is false
// unless the code and that fit the seal.
func (d Disk) Loadable(digest string) ([]byte, Seal, bool) {
	s, err := d.Seal(digest)
	if err != nil || !s.Whole && s.Shell.Size == 0 {
		return nil, s, false
	}
	trusted := make(chan bool, 1)
	go func() { trusted <- d.Code(digest, s) }() // megabytes, as below
	name, want := shellFile, s.Shell
	if s.Whole {
		name, want = moduleFile, s.Module
	}
	b, err := atomicfile.ReadBounded(d.Path(digest, name), bytecode.MaxModule+bytecode.MaxTable)
	fits := err == nil && sumOf(b) == want
	return b, s, <-trusted && fits
}

// Code says whether a module has machine code that fits its seal, and removes code that does not.
func (d Disk) Code(digest string, s Seal) bool {
	have, err := d.codeFiles(digest, func(string) bool { return true })
	if err == nil && len(have) > 0 && slices.Equal(have, s.Code) {
		return true
	}
	d.DropCode(digest) // else the compiler finds it and fails
	return false
}

// DropCode removes the machine code of a module.
func (d Disk) DropCode(digest string) { _ = os.RemoveAll(d.Path(digest, CodeDir)) }

// KeepCode seals the machine code that the compiler has written for a module, to be loaded with
// a shell: name is the file below CodeDir in which the compiler looks for the code of a module,
// here the shell. If making the shell fails, the code is sealed to be loaded with the module.
// Interpreted modules have no code.
func (d Disk) KeepCode(digest string, module []byte, name func(shell []byte, scratch string) (string, error)) error {
	s, err := d.Seal(digest)
	if err != nil {
		return err
	}
	have, err := d.codeFiles(digest, func(string) bool { return true })
	if err != nil || len(have) == 0 {
		return err
	}
	s.Code, s.Shell, s.Whole = have, Sum{}, true
	if len(module) < d.Least {
		return d.Write(digest, s)
	}
	small, err := bytecode.Shell(module, digest)
	if err == nil && len(have) != 1 {
		err = fmt.Errorf("there are %d files of code", len(have))
	}
	var to string
	if err == nil {
		scratch := d.Path(digest, scratchDir)
		to, err = name(small, scratch)
		err = errors.Join(err, os.RemoveAll(scratch))
	}
	if err == nil {
		err = atomicfile.Write(d.Path(digest, shellFile), small, 0o600)
	}
	if err == nil {
		err = os.Rename(d.Path(digest, CodeDir, have[0].Path), d.Path(digest, CodeDir, to))
	}
	if err == nil {
		s.Code[0].Path, s.Shell, s.Whole = to, sumOf(small), false
	}
	return errors.Join(err, d.Write(digest, s))
}

// CodeStat is the state of a module's files of machine code, for Unchanged.
func (d Disk) CodeStat(digest string, s Seal) (out []os.FileInfo) {
	for _, f := range s.Code {
		st, err := os.Stat(d.Path(digest, CodeDir, f.Path))
		if err != nil {
			return nil
		}
		out = append(out, st)
	}
	return out
}

// Unchanged says whether the compiler has left the machine code as it was before.
func (d Disk) Unchanged(digest string, s Seal, before []os.FileInfo) bool {
	after := d.CodeStat(digest, s)
	n := 0
	err := filepath.WalkDir(d.Path(digest, CodeDir), func(_ string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			n++
		}
		return err
	})
	return err == nil && n == len(s.Code) && slices.EqualFunc(before, after, func(a, b os.FileInfo) bool {
		return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
	})
}

// codeFiles are the wanted files of machine code, sorted by name.
func (d Disk) codeFiles(digest string, wanted func(name string) bool) ([]File, error) {
	var out []File
	root := d.Path(digest, CodeDir)
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
		out = append(out, File{name, total})
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return out, err
}

// Touch notes that a module was loaded, so that Clear removes it later than others. It does so
// at most once a day.
func (d Disk) Touch(digest string, now time.Time) {
	if st, err := os.Stat(d.Path(digest)); err == nil && now.Sub(st.ModTime()) > 24*time.Hour {
		_ = os.Chtimes(d.Path(digest), now, now) // a failure affects only the order
	}
}

// Size is the total size of a module's files.
func (d Disk) Size(digest string) int64 {
	s, err := d.Seal(digest)
	if err != nil {
		return 0
	}
	n := s.Module.Size + s.Shell.Size
	for _, f := range s.Code {
		n += f.Size
	}
	return n
}

// Clear removes the least recently used modules that are not in use until at most Most bytes
// are left, and modules without a valid seal. It returns how many bytes are left.
func (d Disk) Clear(used func(digest string) bool) (left int64, err error) {
	entries, err := os.ReadDir(d.Dir)
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
		k := kept{e.Name(), d.Size(e.Name()), st.ModTime()}
		total += k.size
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b kept) int { return a.at.Compare(b.at) })
	var errs []error
	for _, k := range all {
		if total <= d.Most && k.size > 0 || used(k.digest) {
			continue
		}
		errs = append(errs, os.RemoveAll(d.Path(k.digest)))
		total -= k.size
	}
	return total, errors.Join(errs...)
}
