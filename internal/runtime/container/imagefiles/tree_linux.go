package imagefiles

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxLinks are followed to find one file, as by Linux.
const maxLinks = 40

// Tree is the files of an image as a container finds them: its layers, the uppermost
// first, put together as overlayfs does it, without a mount. What its links lead to is in
// the image.
type Tree []*os.Root

// Open opens the directories of layers, the uppermost first. The tree is to be closed.
func Open(dirs []string) (Tree, error) {
	var t Tree
	for _, dir := range dirs {
		layer, err := os.OpenRoot(dir)
		if err != nil {
			t.Close()
			return nil, err
		}
		t = append(t, layer)
	}
	return t, nil
}

// Close closes the layers.
func (t Tree) Close() {
	for _, layer := range t {
		_ = layer.Close() // nothing was written
	}
}

// Open opens a regular file; it is of fs.FS.
func (t Tree) Open(name string) (fs.File, error) {
	f, err := t.open(name)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return f, nil
}

func (t Tree) open(name string) (fs.File, error) {
	rest, links := strings.Split(name, "/"), 0
	at, dirs := "", t // the directory that was reached, and the layers that have a part of it
	for len(rest) > 0 {
		next := rest[0]
		rest = rest[1:]
		switch next {
		case "", ".":
			continue
		case "..":
			rest = append(strings.Split(path.Dir(at), "/"), rest...)
			at, dirs = "", t
			continue
		}
		next = path.Join(at, next)
		parts, mode, err := dirs.find(next)
		switch {
		case err != nil:
			return nil, err
		case mode.IsDir():
			at, dirs = next, parts
		case mode&fs.ModeSymlink != 0:
			if links++; links > maxLinks {
				return nil, syscall.ELOOP
			}
			target, err := parts[0].Readlink(next)
			if err != nil {
				return nil, err
			}
			if path.IsAbs(target) {
				at, dirs = "", t
			}
			rest = append(strings.Split(target, "/"), rest...)
		case len(rest) > 0:
			return nil, syscall.ENOTDIR
		case !mode.IsRegular(): // opening a pipe, say, would wait
			return nil, fmt.Errorf("%w: not a regular file", fs.ErrInvalid)
		default:
			return parts[0].Open(next)
		}
	}
	return nil, syscall.EISDIR
}

// find returns what name is, in directories that have no links, and in which layers: one,
// or for a directory all whose parts of it are seen.
func (t Tree) find(name string) (parts Tree, mode fs.FileMode, err error) {
	for _, layer := range t {
		info, err := layer.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, 0, err
		}
		if !info.IsDir() {
			if len(parts) > 0 || whiteout(info) {
				break // hidden, as all below it
			}
			return Tree{layer}, info.Mode(), nil
		}
		parts, mode = append(parts, layer), info.Mode()
		if alone, err := opaque(layer, name); err != nil {
			return nil, 0, err
		} else if alone {
			break
		}
	}
	if len(parts) == 0 {
		return nil, 0, fs.ErrNotExist
	}
	return parts, mode, nil
}

// whiteout says whether a file stands for one that was removed.
func whiteout(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Mode()&fs.ModeCharDevice != 0 && st.Rdev == 0
}

// opaque says whether a directory hides those below it.
func opaque(layer *os.Root, dir string) (bool, error) {
	f, err := layer.Open(dir)
	if err != nil {
		return false, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	for _, attr := range []string{"trusted.overlay.opaque", "user.overlay.opaque"} {
		value := make([]byte, 1)
		if n, err := unix.Fgetxattr(int(f.Fd()), attr, value); err == nil && n == 1 && value[0] == 'y' {
			return true, nil
		}
	}
	return false, nil
}
