package volume

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Counts says what is in a packed directory.
type Counts struct {
	Files int   // all but directories
	Bytes int64 // of their contents
	// Left are sockets and pipes, which hold nothing and are left out; Examples are the
	// names of some of them.
	Left     int
	Examples []string
	lists    int // bytes of the access lists of directories
}

// maxLists bounds the access lists of all directories together, in bytes: who unpacks
// keeps them in memory until all is in place. Most take 44 bytes.
const maxLists = 16 << 20

func tooManyLists(name string) error {
	return Refusedf("%s: the access lists of all directories have more than %d bytes", name, maxLists)
}

// rightsOf are the extended attributes of a header that say who may do what, and their
// size.
func rightsOf(h *tar.Header) (rights map[string]string, n int) {
	for key, value := range h.PAXRecords {
		name, ok := strings.CutPrefix(key, xattrPrefix)
		if !ok || !ofRights(name) {
			continue
		}
		if rights == nil {
			rights = map[string]string{}
		}
		rights[key] = value
		n += len(key) + len(value)
	}
	return rights, n
}

// xattrPrefix begins the record of an extended attribute in an archive, as in those of
// star and GNU tar.
const xattrPrefix = "SCHILY.xattr."

// maxExamples are named of what was left out.
const maxExamples = 3

// Refused is an error of what is in a directory or a stream, or of what the disk can
// take: the next try ends in the same way.
type Refused struct{ Err error }

// Error implements error.
func (r Refused) Error() string { return r.Err.Error() }

// Unwrap is for package errors.
func (r Refused) Unwrap() error { return r.Err }

// Refusedf makes one.
func Refusedf(format string, args ...any) error { return Refused{fmt.Errorf(format, args...)} }

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
		if errors.Is(err, fs.ErrInvalid) {
			return Refusedf("%q is no name that can be packed, since it is not UTF-8; give the directory another one", name)
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
		if n.Left++; len(n.Examples) < maxExamples {
			n.Examples = append(n.Examples, name)
		}
		return nil
	case mode&fs.ModeDevice != 0:
		return Refusedf("%s is a device, which can be on no other machine; remove it from the volume", name)
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
		if err := withXattrs(h, root, name); err != nil {
			return err
		}
		_, lists := rightsOf(h)
		if n.lists += lists; n.lists > maxLists {
			return tooManyLists(name)
		}
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
	if !mode.IsRegular() {
		return out.WriteHeader(h)
	}
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	if err := packXattrs(h, f); err != nil {
		return err
	}
	if err := out.WriteHeader(h); err != nil {
		return err
	}
	copied, err := io.Copy(out, f)
	n.Bytes += copied
	if errors.Is(err, tar.ErrWriteTooLong) || err == nil && copied != h.Size {
		return fmt.Errorf("%s has changed while it was copied", name)
	}
	return err
}

// withXattrs adds the extended attributes of a directory to its header.
func withXattrs(h *tar.Header, root *os.Root, name string) error {
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	return packXattrs(h, f)
}

// source counts what is read of a stream, and knows why it was cut off.
type source struct {
	r   io.Reader
	n   int64
	err error // other than io.EOF
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.n += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// contents counts what is written of all files of a stream, which is never more than
// was read of it: a header may say any size.
type contents struct {
	to   io.Writer
	from *source
	n    int64
}

func (c *contents) Write(p []byte) (int, error) {
	if c.n += int64(len(p)); c.n > c.from.n {
		return 0, fmt.Errorf("the files in it have more bytes than it has, %d", c.from.n)
	}
	return c.to.Write(p)
}

// holey writes a file with holes for long runs of zeros: a file that was sparse takes no
// more of the disk than it did.
type holey struct {
	f    *os.File
	hole bool // the file does not reach its end yet
}

// zeros are as many as io.Copy hands on at a time.
var zeros [32 << 10]byte

// leastHole is the size of a block of most file systems.
const leastHole = 4 << 10

func (h *holey) Write(p []byte) (int, error) {
	if len(p) >= leastHole && len(p) <= len(zeros) && bytes.Equal(p, zeros[:len(p)]) {
		h.hole = true
		_, err := h.f.Seek(int64(len(p)), io.SeekCurrent)
		return len(p), err
	}
	h.hole = false
	return h.f.Write(p)
}

// end gives the file its size.
func (h *holey) end() error {
	if !h.hole {
		return nil
	}
	size, err := h.f.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	return h.f.Truncate(size)
}

// Unpack makes in dir, which is empty, what a stream of Pack says, and lets it reach the
// disk. Room says how many bytes may still be written there. An error is Refused but
// where the stream broke off, the context ended, or the machine has too much to do.
func Unpack(ctx context.Context, r io.Reader, dir string, room func() (int64, error)) error {
	from := &source{r: r}
	err := unpackAll(ctx, from, dir, room)
	if err == nil || from.err != nil || ctx.Err() != nil {
		return err
	}
	for _, passing := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EIO} {
		if errors.Is(err, passing) {
			return err
		}
	}
	return Refused{err}
}

func unpackAll(ctx context.Context, from *source, dir string, room func() (int64, error)) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()     //nolint:errcheck // what was written was synced
	var dirs []*tar.Header // their times, modes and rights are set when all is in them
	listed := 0            // bytes of their access lists
	in := tar.NewReader(from)
	written := &contents{from: from}
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
		if err := fits(h, room); err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
		if err := unpack(in, root, h, written); err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
		if h.Typeflag == tar.TypeDir {
			dir := *h
			var n int
			if dir.PAXRecords, n = rightsOf(h); listed+n > maxLists {
				return tooManyLists(h.Name)
			}
			listed += n
			dirs = append(dirs, &dir)
		}
	}
	for i := len(dirs) - 1; i >= 0; i-- {
		if err := settle(root, dirs[i]); err != nil {
			return fmt.Errorf("%s: %w", dirs[i].Name, err)
		}
	}
	return syncAll(dir)
}

// settle gives a directory that has all that belongs into it what it is to have itself.
func settle(root *os.Root, h *tar.Header) error {
	f, err := root.Open(h.Name)
	if err != nil {
		return err
	}
	err = setXattrs(f, h, ofRights)
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil { // with an access list that is a part of it, and of the list: the same
		err = root.Chmod(h.Name, h.FileInfo().Mode()&settable)
	}
	if err == nil {
		err = root.Chtimes(h.Name, h.ModTime, h.ModTime)
	}
	return err
}

// settable are the parts of a mode that a file can be given.
const settable = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

// fits says why a file is not written, nil if it is.
func fits(h *tar.Header, room func() (int64, error)) error {
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") { // a few bytes for any number of zeros
			return errors.New("it is sparse, which nothing in the archive of a volume is")
		}
	}
	left, err := room()
	if err != nil {
		return fmt.Errorf("find out how much room there is: %w", err)
	}
	if h.Size > left {
		return fmt.Errorf("it has %d bytes, and there is room for %d", h.Size, max(left, 0))
	}
	return nil
}

// unpack makes one file.
func unpack(in *tar.Reader, root *os.Root, h *tar.Header, written *contents) error {
	mode := h.FileInfo().Mode()
	switch h.Typeflag {
	case tar.TypeDir:
		if err := root.Mkdir(h.Name, 0o700); err != nil && (h.Name != "." || !errors.Is(err, fs.ErrExist)) {
			return err
		}
		if err := makeXattrs(root, h); err != nil {
			return err
		}
		return chown(root, h)
	case tar.TypeReg:
		f, err := root.OpenFile(h.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		to := &holey{f: f}
		written.to = to
		_, err = io.Copy(written, in) //nolint:gosec // no more than was read
		if err == nil {
			err = to.end()
		}
		if err == nil {
			err = setXattrs(f, h, ofPrograms)
		}
		if err == nil {
			err = chown(root, h)
		}
		if err == nil { // after the owner, which takes some of it away
			err = root.Chmod(h.Name, mode&settable)
		}
		if err == nil {
			err = setXattrs(f, h, ofRights)
		}
		if e := f.Close(); err == nil {
			err = e
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

// makeXattrs gives a directory those of its extended attributes that do not change what
// may be done in it.
func makeXattrs(root *os.Root, h *tar.Header) error {
	if len(h.PAXRecords) == 0 {
		return nil
	}
	f, err := root.Open(h.Name)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	return setXattrs(f, h, ofPrograms)
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
