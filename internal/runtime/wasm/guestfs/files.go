package guestfs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Files are the files of a task, for reading. What else lies in their directory may
// be from another program that the instance was before: no link leads out of it, but
// those that were put there as files, because they are secrets and elsewhere.
type Files struct {
	Dir   string
	Files []string
}

// Open implements fs.FS.
func (g Files) Open(name string) (fs.File, error) {
	if slices.Contains(g.Files, name) {
		return os.Open(filepath.Join(g.Dir, filepath.FromSlash(name)))
	}
	return os.OpenInRoot(g.Dir, name)
}

// Objects are the worker's objects as files, BUCKET/NAME, for reading: what a request
// refers to need not be in it.
type Objects struct {
	Base   string // URL
	Client *http.Client
	Ctx    func() context.Context // of the request that is worked on
	// Waiting calls what waits for the store.
	Waiting func(func())
}

// Open implements fs.FS. An object is fetched when it is read.
func (o *Objects) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	f := &object{of: o, name: name}
	if name == "." || !strings.Contains(name, "/") { // the root and buckets: not to be listed
		f.dir = true
		return f, nil
	}
	resp, err := f.ask(http.MethodHead, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	_ = resp.Body.Close() // it has none
	f.size = resp.ContentLength
	f.at, _ = http.ParseTime(resp.Header.Get("Last-Modified")) // unknown is zero
	return f, nil
}

// object is an open one.
type object struct {
	of   *Objects
	name string
	dir  bool
	size int64 // -1: not known
	at   time.Time

	offset int64
	body   io.ReadCloser // from offset on; nil until it is read
}

// ask asks the worker for the object from an offset on.
func (f *object) ask(method string, from int64) (*http.Response, error) {
	parts := strings.Split(f.name, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	req, err := http.NewRequestWithContext(f.of.Ctx(), method, strings.TrimSuffix(f.of.Base, "/")+"/"+strings.Join(parts, "/"), nil)
	if err != nil {
		return nil, err
	}
	if from > 0 {
		req.Header.Set("Range", "bytes="+strconv.FormatInt(from, 10)+"-")
	}
	var resp *http.Response
	f.of.Waiting(func() { resp, err = f.of.Client.Do(req) }) //nolint:bodyclose // it is returned, or closed below
	if err != nil {
		return nil, err
	}
	want := http.StatusOK
	if from > 0 {
		want = http.StatusPartialContent
	}
	if resp.StatusCode == want {
		return resp, nil
	}
	_ = resp.Body.Close() // of no use
	switch resp.StatusCode {
	case http.StatusNotFound:
		return nil, fs.ErrNotExist
	case http.StatusForbidden, http.StatusUnauthorized:
		return nil, fs.ErrPermission
	}
	return nil, fmt.Errorf("the object store says %s", resp.Status)
}

// Read implements fs.File.
func (f *object) Read(p []byte) (int, error) {
	if f.dir {
		return 0, errors.New("is a directory")
	}
	if f.size >= 0 && f.offset >= f.size {
		return 0, io.EOF
	}
	if f.body == nil {
		resp, err := f.ask(http.MethodGet, f.offset) //nolint:bodyclose // Close does
		if err != nil {
			return 0, err
		}
		f.body = resp.Body
	}
	var n int
	var err error
	f.of.Waiting(func() { n, err = f.body.Read(p) })
	f.offset += int64(n)
	return n, err
}

// Seek implements io.Seeker.
func (f *object) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += f.offset
	case io.SeekEnd:
		offset += f.size
	}
	if offset < 0 || whence == io.SeekEnd && f.size < 0 {
		return 0, fs.ErrInvalid
	}
	if offset != f.offset {
		_ = f.Close() // read from there on
		f.offset = offset
	}
	return offset, nil
}

// Close implements fs.File.
func (f *object) Close() error {
	if f.body == nil {
		return nil
	}
	body := f.body
	f.body = nil
	return body.Close()
}

// Stat implements fs.File.
func (f *object) Stat() (fs.FileInfo, error) { return f, nil }

// ReadDir implements fs.ReadDirFile: there is no list.
func (f *object) ReadDir(int) ([]fs.DirEntry, error) {
	return nil, errors.New("objects are not listed here")
}

// The rest implements fs.FileInfo.

func (f *object) Name() string       { return f.name[strings.LastIndexByte(f.name, '/')+1:] }
func (f *object) Size() int64        { return max(f.size, 0) }
func (f *object) ModTime() time.Time { return f.at }
func (f *object) IsDir() bool        { return f.dir }
func (f *object) Sys() any           { return nil }
func (f *object) Mode() fs.FileMode {
	if f.dir {
		return fs.ModeDir | 0o555
	}
	return 0o444
}
