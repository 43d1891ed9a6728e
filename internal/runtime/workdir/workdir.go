package workdir

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/filecopy"
)

// Place is where the things of one instance are. Its methods are not safe for
// concurrent use on the same directories.
type Place struct {
	// Work is the working directory; it exists.
	Work string
	// Mounts is a directory outside of Work that is there only while something is
	// mounted for the instance. It is not for others to touch.
	Mounts string
	// MayMount: see CannotMount. Where it is false there can be no Tmpfs and no
	// ReadOnly volumes, and secret files are on disk.
	MayMount bool
	// Owner gets all that Prepare makes; nil is this process.
	Owner *filecopy.Owner
}

// File is a file to be put into the working directory.
type File struct {
	// Path below the working directory, clean and without "..".
	Path    string
	Content []byte
	Mode    fs.FileMode
	// Secret files are kept in memory where the process may mount, and are
	// symbolic links then.
	Secret bool

	owner *filecopy.Owner // who is to have it; nil: this process
}

// Volume is a directory to be put into the working directory. Exactly one of
// Dir and Tmpfs is set.
type Volume struct {
	// Path as that of a File.
	Path string
	// Dir is a directory of the machine, absolute and without symbolic links.
	Dir string
	// Tmpfs is the size of a directory in memory, empty at first.
	Tmpfs api.Bytes
	// ReadOnly mounts Dir such that nothing can be written through it.
	ReadOnly bool
}

// newName is what a file or link is called until it is complete.
const newName = ".verge-new"

// Prepare puts files and volumes into the working directory. had are the paths
// that an earlier Prepare returned: of them, what is not wanted any more is
// removed. It returns the paths that are there now, also with an error, which
// names the one that is wrong. Mounts of an earlier Prepare must have been
// Cleared.
func (p Place) Prepare(files []File, volumes []Volume, had []string) (placed []string, err error) {
	root, err := os.OpenRoot(p.Work)
	if err != nil {
		return had, fmt.Errorf("working directory: %w", err)
	}
	defer root.Close() //nolint:errcheck // nothing is written through it
	wanted := map[string]bool{}
	for _, f := range files {
		wanted[f.Path] = true
	}
	for _, v := range volumes {
		wanted[v.Path] = true
	}
	for _, old := range had {
		if wanted[old] {
			placed = append(placed, old)
			continue
		}
		if err := remove(root, old); err != nil {
			return append(placed, had...), fmt.Errorf("%s, which is not wanted any more: %w", old, inWords(err))
		}
	}
	note := func(path string) {
		if !slices.Contains(placed, path) {
			placed = append(placed, path)
		}
	}
	ours := func(path string) bool { return slices.Contains(had, path) }
	inMemory, err := p.memory(files)
	if err != nil {
		return placed, err
	}
	for i, f := range files {
		f.owner = p.Owner
		if err := p.putFile(root, f, i, inMemory, ours(f.Path)); err != nil {
			return placed, fmt.Errorf("file %s: %w", f.Path, inWords(err))
		}
		note(f.Path)
	}
	for i, v := range volumes {
		if err := p.putVolume(root, v, i, ours(v.Path)); err != nil {
			return placed, fmt.Errorf("volume %s: %w", v.Path, inWords(err))
		}
		note(v.Path)
	}
	return placed, nil
}

// memory mounts a place in memory for files that are secret, if there are any
// and it may.
func (p Place) memory(files []File) (mounted bool, err error) {
	size := int64(0)
	for _, f := range files {
		if f.Secret {
			size += int64(len(f.Content)) + 2*int64(os.Getpagesize())
		}
	}
	if size == 0 || !p.MayMount {
		return false, nil
	}
	if err := p.makeMounts(); err != nil {
		return false, err
	}
	if err := mountTmpfs(p.secrets(), size, p.Owner); err != nil {
		return false, fmt.Errorf("a place in memory for secret files: %w", err)
	}
	return true, nil
}

// makeMounts makes the directory of the mounts, which the owner passes through.
func (p Place) makeMounts() error {
	if err := os.MkdirAll(p.Mounts, 0o700); err != nil || p.Owner == nil {
		return err
	}
	return os.Chmod(p.Mounts, 0o711)
}

func (p Place) secrets() string { return filepath.Join(p.Mounts, "secrets") }

// putFile puts one file in its place.
func (p Place) putFile(root *os.Root, f File, i int, inMemory, ours bool) error {
	if !f.Secret || !inMemory {
		return write(root, f)
	}
	memory, err := os.OpenRoot(p.secrets())
	if err != nil {
		return err
	}
	defer memory.Close() //nolint:errcheck // what was written was closed
	name := strconv.Itoa(i)
	if err := write(memory, File{Path: name, Content: f.Content, Mode: f.Mode, owner: f.owner}); err != nil {
		return err
	}
	return link(root, filepath.Join(p.secrets(), name), f.Path, ours, p.Owner)
}

// write writes a file, unless it is there already.
func write(root *os.Root, f File) (err error) {
	if st, err := root.Lstat(f.Path); err == nil && st.Mode() == f.Mode && st.Size() == int64(len(f.Content)) && ownedBy(f.owner, st) {
		if had, err := root.ReadFile(f.Path); err == nil && bytes.Equal(had, f.Content) {
			return nil
		}
	}
	dir := path.Dir(f.Path)
	if err := makeDir(root, dir, f.owner); err != nil {
		return err
	}
	tmp := path.Join(dir, newName)
	if err := root.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	out, err := root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = out.Write(f.Content)
	if err == nil && f.owner != nil {
		err = out.Chown(f.owner.UID, f.owner.GID)
	}
	if err == nil {
		err = out.Chmod(f.Mode)
	}
	if e := out.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = root.Rename(tmp, f.Path)
	}
	if err != nil {
		_ = root.Remove(tmp) // a full disk gets its room back
	}
	return err
}

// putVolume puts one volume in its place.
func (p Place) putVolume(root *os.Root, v Volume, i int, ours bool) error {
	target := v.Dir
	if v.Tmpfs > 0 || v.ReadOnly {
		target = filepath.Join(p.Mounts, strconv.Itoa(i))
	}
	if target != v.Dir {
		if err := p.makeMounts(); err != nil {
			return err
		}
	}
	var err error
	switch {
	case v.Tmpfs > 0:
		err = mountTmpfs(target, int64(v.Tmpfs), p.Owner)
	case v.ReadOnly:
		err = mountReadOnly(v.Dir, target)
	}
	if err != nil {
		return err
	}
	return link(root, target, v.Path, ours, p.Owner)
}

// link makes a symbolic link in the working directory. What is there is replaced
// if that loses nothing, and if it is ours.
func link(root *os.Root, target, name string, ours bool, owner *filecopy.Owner) error {
	if err := makeDir(root, path.Dir(name), owner); err != nil {
		return err
	}
	st, err := root.Lstat(name)
	switch {
	case err != nil || st.Mode()&fs.ModeSymlink != 0: // to be replaced
	case st.IsDir():
		if root.Remove(name) != nil {
			return fmt.Errorf("there is a directory of the instance with that name, and it is not empty: %w", fs.ErrExist)
		}
	case !ours:
		return fmt.Errorf("there is a file of the instance with that name: %w", fs.ErrExist)
	}
	tmp := path.Join(path.Dir(name), newName)
	if err := root.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := root.Symlink(target, tmp); err != nil {
		return err
	}
	return root.Rename(tmp, name)
}

// makeDir makes a directory and those above it, which are the owner's.
func makeDir(root *os.Root, dir string, owner *filecopy.Owner) error {
	if dir == "." {
		return nil
	}
	if owner == nil {
		return root.MkdirAll(dir, 0o755)
	}
	if err := makeDir(root, path.Dir(dir), owner); err != nil {
		return err
	}
	err := root.Mkdir(dir, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil {
		err = root.Lchown(dir, owner.UID, owner.GID)
	}
	return err
}

// remove removes a file or link that was put there, and the directories above it
// that are empty then.
func remove(root *os.Root, name string) error {
	if !isFile(root, name) {
		return nil // the instance has removed or replaced it, or a directory above it
	}
	if err := root.Remove(name); err != nil {
		return err
	}
	empty := true
	for dir := path.Dir(name); dir != "." && empty; dir = path.Dir(dir) {
		empty = root.Remove(dir) == nil
	}
	return nil
}

func isFile(root *os.Root, name string) bool {
	st, err := root.Lstat(name)
	return err == nil && !st.IsDir()
}

// inWords says for people what os.Root says for programs.
func inWords(err error) error {
	if strings.Contains(err.Error(), "path escapes from parent") {
		return errors.New("the instance has made a link that leads out of its working directory; remove it there, or choose another path")
	}
	var pe *fs.PathError
	if errors.As(err, &pe) && !errors.Is(err, fs.ErrExist) {
		return pe.Err
	}
	return err
}

// Clear ends all mounts of the instance. Without any it costs one look.
func (p Place) Clear() error {
	if _, err := os.Lstat(p.Mounts); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := unmountBelow(p.Mounts); err != nil {
		return err
	}
	// Only directories that something was mounted on, which are empty: one that is
	// not is left, because what is in it may be somebody's.
	entries, err := os.ReadDir(p.Mounts)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.Remove(filepath.Join(p.Mounts, e.Name())); err != nil {
			return err
		}
	}
	return os.Remove(p.Mounts)
}
