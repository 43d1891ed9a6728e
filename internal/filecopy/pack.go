package filecopy

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// Bounds of what is carried at once.
const (
	// MaxEntries are files and directories, with links and special files, which are left
	// out but read all the same.
	MaxEntries = 200_000
	// MaxBytes of all files together.
	MaxBytes = 64 << 30
	maxName  = 4096
	maxDepth = 200
)

// Summary is what was carried.
type Summary struct {
	Files       int   `json:"files"`
	Directories int   `json:"directories"`
	Bytes       int64 `json:"bytes"`
	// Left are links and special files that were left out; Examples are some of them.
	Left     int      `json:"left,omitempty"`
	Examples []string `json:"examples,omitempty"`
}

// maxExamples are named of what was left out.
const maxExamples = 5

func (s *Summary) leave(name string) {
	if s.Left++; len(s.Examples) < maxExamples {
		s.Examples = append(s.Examples, name)
	}
}

// String says what was carried in words.
func (s *Summary) String() string {
	count := func(n int, one, many string) string {
		if n == 1 {
			return "1 " + one
		}
		return fmt.Sprintf("%d %s", n, many)
	}
	out := fmt.Sprintf("%s, %s, %d bytes", count(s.Files, "file", "files"),
		count(s.Directories, "directory", "directories"), s.Bytes)
	if s.Files == 0 && s.Directories == 1 && s.Left == 0 {
		out = "a directory with nothing in it"
	}
	if s.Left > 0 {
		out += fmt.Sprintf("; %d links or special files were left out (%s", s.Left, strings.Join(s.Examples, ", "))
		if s.Left > len(s.Examples) {
			out += ", …"
		}
		out += ")"
	}
	return out
}

// lastEntry ends a stream; the name cannot be that of a file.
const lastEntry = "verge.end"

// Pack writes name, which is a file or directory in root, to w. The error names what
// could not be read, without the root.
func Pack(ctx context.Context, w io.Writer, root *os.Root, name string) (Summary, error) {
	return pack(ctx, w, root, name, MaxEntries)
}

func pack(ctx context.Context, w io.Writer, root *os.Root, name string, most int) (Summary, error) {
	p := packer{ctx: ctx, root: root, w: tar.NewWriter(w), entries: 1, most: most}
	name = path.Clean(name)
	info, err := root.Stat(name)
	if err != nil {
		return p.Summary, plain(name, err)
	}
	if !info.IsDir() && !info.Mode().IsRegular() {
		return p.Summary, fmt.Errorf("%s is neither a file nor a directory", name)
	}
	if err := p.entry(name, ".", info, 0); err != nil {
		return p.Summary, err
	}
	end := &tar.Header{Typeflag: tar.TypeXGlobalHeader, Name: lastEntry,
		PAXRecords: map[string]string{"comment": lastEntry}}
	if err := p.w.WriteHeader(end); err != nil {
		return p.Summary, fmt.Errorf("send what is copied: %w", err)
	}
	if err := p.w.Close(); err != nil {
		return p.Summary, fmt.Errorf("send what is copied: %w", err)
	}
	return p.Summary, nil
}

type packer struct {
	Summary
	ctx     context.Context //nolint:containedctx // of this one call
	root    *os.Root
	w       *tar.Writer
	entries int
	most    int // of entries
}

// entry writes what is at name as as.
func (p *packer) entry(name, as string, info fs.FileInfo, depth int) error {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	switch {
	case depth > maxDepth:
		return fmt.Errorf("%s is more than %d directories deep", name, maxDepth)
	case len(as) > maxName:
		return fmt.Errorf("the name of %.100s… is longer than %d bytes", name, maxName)
	}
	if info.IsDir() {
		return p.directory(name, as, info, depth)
	}
	return p.file(name, as)
}

// list is what is in a directory. All that is listed counts, whatever becomes of it, so
// that the lists of nested directories together are bounded, too.
func (p *packer) list(name string) ([]fs.DirEntry, error) {
	dir, err := p.root.Open(name)
	if err != nil {
		return nil, plain(name, err)
	}
	list, err := dir.ReadDir(p.most - p.entries + 1)
	_ = dir.Close() // read only
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, plain(name, err)
	}
	if p.entries += len(list); p.entries > p.most {
		return nil, fmt.Errorf("there are more than %d files and directories", p.most)
	}
	return list, nil
}

func (p *packer) directory(name, as string, info fs.FileInfo, depth int) error {
	list, err := p.list(name)
	if err != nil {
		return err
	}
	h := &tar.Header{Typeflag: tar.TypeDir, Name: as + "/", Mode: int64(info.Mode().Perm()), ModTime: info.ModTime(),
		Format: tar.FormatPAX}
	if err := p.w.WriteHeader(h); err != nil {
		return fmt.Errorf("send what is copied: %w", err)
	}
	p.Directories++
	for _, d := range list {
		inner := path.Join(name, d.Name())
		info, err := p.root.Lstat(inner)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // it has gone meanwhile
		case err != nil:
			return plain(inner, err)
		case !info.IsDir() && !info.Mode().IsRegular():
			p.leave(inner)
			continue
		case strings.HasPrefix(d.Name(), temporary):
			continue // of a copy that is being made
		}
		if err := p.entry(inner, path.Join(as, d.Name()), info, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (p *packer) file(name, as string) error {
	// What turns out to be a pipe does not wait for its other end.
	f, err := p.root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return plain(name, err)
	}
	defer f.Close()       //nolint:errcheck // read only
	info, err := f.Stat() // of what is open, whatever was there a moment ago
	if err != nil {
		return plain(name, err)
	}
	if !info.Mode().IsRegular() {
		p.leave(name)
		return nil
	}
	if p.Bytes += info.Size(); p.Bytes > MaxBytes {
		return fmt.Errorf("there are more than %d bytes", int64(MaxBytes))
	}
	h := &tar.Header{Typeflag: tar.TypeReg, Name: as, Size: info.Size(), Mode: int64(info.Mode().Perm()),
		ModTime: info.ModTime(), Format: tar.FormatPAX}
	if err := p.w.WriteHeader(h); err != nil {
		return fmt.Errorf("send what is copied: %w", err)
	}
	n, err := io.CopyN(p.w, reader{p.ctx, f}, info.Size())
	switch {
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%s became shorter while it was read (%d bytes of %d): copy it again", name, n, info.Size())
	case err != nil:
		return plain(name, err)
	}
	p.Files++
	return nil
}

// reader ends with a context.
type reader struct {
	ctx context.Context //nolint:containedctx // of one call
	r   io.Reader
}

// Read implements io.Reader.
func (r reader) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(b)
}

// absent: there is no such file.
type absent struct{ name string }

func (e *absent) Error() string { return "there is no " + e.name }
func (e *absent) Unwrap() error { return fs.ErrNotExist }

// plain is an error of a path in words, without the root and the system call.
func plain(name string, err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	var l *os.LinkError
	if errors.As(err, &l) {
		err = l.Err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &absent{name}
	case strings.Contains(err.Error(), "escapes"):
		return fmt.Errorf("%s leads out of what may be copied", name)
	}
	return fmt.Errorf("%s: %w", name, err)
}
