package volume

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Counts says what is in a packed directory.
type Counts struct {
	Files int   // all but directories
	Bytes int64 // of their contents
}

// inode names a file on this machine.
type inode struct{ dev, ino uint64 }

// Pack writes the directory to w.
func Pack(ctx context.Context, w io.Writer, dir string) (n Counts, err error) {
	out := tar.NewWriter(w)
	linked := map[inode]string{}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return n, err
	}
	defer root.Close() //nolint:errcheck // only read
	// WalkDir goes in lexical order, which makes the stream a function of the directory.
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return pack(out, root, name, info, linked, &n)
	})
	if err == nil {
		err = out.Close()
	}
	return n, err
}

// pack writes one file.
func pack(out *tar.Writer, root *os.Root, name string, info fs.FileInfo, linked map[inode]string, n *Counts) error {
	mode := info.Mode()
	switch {
	case mode&(fs.ModeSocket|fs.ModeNamedPipe) != 0:
		return nil
	case mode&fs.ModeDevice != 0:
		return fmt.Errorf("%s is a device, which can be on no other machine; remove it from the volume", name)
	}
	target := ""
	if mode&fs.ModeSymlink != 0 {
		var err error
		if target, err = root.Readlink(name); err != nil {
			return err
		}
	}
	h, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	h.Name, h.Format = filepath.ToSlash(name), tar.FormatPAX
	h.Uname, h.Gname = "", "" // names of users are of one machine
	h.ModTime, h.AccessTime, h.ChangeTime = info.ModTime().Truncate(time.Second), time.Time{}, time.Time{}
	if mode.IsDir() {
		return out.WriteHeader(h)
	}
	n.Files++
	if st, ok := info.Sys().(*syscall.Stat_t); ok && mode.IsRegular() && st.Nlink > 1 {
		at := inode{uint64(st.Dev), st.Ino} //nolint:unconvert // another size on other systems
		if first, seen := linked[at]; seen {
			h.Typeflag, h.Linkname, h.Size = tar.TypeLink, first, 0
			return out.WriteHeader(h)
		}
		linked[at] = h.Name
	}
	if err := out.WriteHeader(h); err != nil || !mode.IsRegular() {
		return err
	}
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	copied, err := io.Copy(out, f)
	n.Bytes += copied
	if errors.Is(err, tar.ErrWriteTooLong) || err == nil && copied != h.Size {
		return fmt.Errorf("%s has changed while it was copied", name)
	}
	return err
}

// Unpack makes in dir, which is empty, what a stream of Pack says, and lets it reach the
// disk.
func Unpack(ctx context.Context, r io.Reader, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // what was written was synced
	type dated struct {
		name string
		at   time.Time
	}
	var dirs []dated // their times and modes are set when all is in them
	modes := map[string]fs.FileMode{}
	in := tar.NewReader(r)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if err := unpack(in, root, h); err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
		if h.Typeflag == tar.TypeDir {
			dirs = append(dirs, dated{h.Name, h.ModTime})
			modes[h.Name] = h.FileInfo().Mode()
		}
	}
	for i := len(dirs) - 1; i >= 0; i-- {
		d := dirs[i]
		if err := root.Chmod(d.name, modes[d.name]&settable); err != nil {
			return err
		}
		if err := root.Chtimes(d.name, d.at, d.at); err != nil {
			return err
		}
	}
	return syncAll(dir)
}

// settable are the parts of a mode that a file can be given.
const settable = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

// unpack makes one file.
func unpack(in *tar.Reader, root *os.Root, h *tar.Header) error {
	mode := h.FileInfo().Mode()
	switch h.Typeflag {
	case tar.TypeDir:
		if err := root.Mkdir(h.Name, 0o700); err != nil && (h.Name != "." || !errors.Is(err, fs.ErrExist)) {
			return err
		}
		return chown(root, h)
	case tar.TypeReg:
		f, err := root.OpenFile(h.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, in) //nolint:gosec // of the size that the object has
		if e := f.Close(); err == nil {
			err = e
		}
		if err == nil {
			err = chown(root, h)
		}
		if err == nil { // after the owner, which takes some of it away
			err = root.Chmod(h.Name, mode&settable)
		}
		if err == nil {
			err = root.Chtimes(h.Name, h.ModTime, h.ModTime)
		}
		return err
	case tar.TypeLink:
		return root.Link(h.Linkname, h.Name)
	case tar.TypeSymlink:
		if err := root.Symlink(h.Linkname, h.Name); err != nil {
			return err
		}
		if err := chown(root, h); err != nil {
			return err
		}
		return dateLink(root, h.Name, h.ModTime)
	default:
		return fmt.Errorf("it is of a kind (%q) that no volume has", h.Typeflag)
	}
}

// chown gives a file to its owner, where it is another one.
func chown(root *os.Root, h *tar.Header) error {
	if h.Uid == os.Geteuid() && h.Gid == os.Getegid() {
		return nil
	}
	if err := root.Lchown(h.Name, h.Uid, h.Gid); err != nil {
		return fmt.Errorf("it belongs to user %d and group %d, to whom it cannot be given here: %w", h.Uid, h.Gid, err)
	}
	return nil
}
