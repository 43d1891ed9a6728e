// Package ranges answers requests for the whole of something, or for parts of it.
//
// Promises:
//  1. What is sent is what was asked for, whatever was asked for; a range that is none
//     gets 416 or the whole.
//  2. An answer that breaks off does not look whole.
//
// It is a package of its own, with nothing but the standard library below it, so that
// it can be fuzzed in seconds: instrumented, what package rest needs takes minutes.
package ranges

import (
	"errors"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"time"
)

// Serve answers a GET or HEAD with content, or with the ranges of it that are asked
// for, if its conditions hold. The headers of w, such as ETag and Content-Type, are set
// before. An error means that nothing was sent yet; where reading fails later it panics
// with http.ErrAbortHandler.
func Serve(w http.ResponseWriter, r *http.Request, modified time.Time, content io.ReadSeeker) error {
	if said := r.Header.Get("Range"); said != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Range", satisfiable(said))
		if end, err := content.Seek(0, io.SeekEnd); err == nil && end == 0 {
			r.Header.Del("Range") // of nothing there is only the whole
		}
	}
	f := &failing{ReadSeeker: content}
	http.ServeContent(w, r, "", modified, f)
	if f.err != nil && f.begun {
		panic(http.ErrAbortHandler)
	}
	return f.err
}

// satisfiable asks for what lies behind every end where the last 0 bytes are asked for,
// which nobody can satisfy (RFC 9110, 14.1.2): http.ServeContent answers that with a
// part which ends before it begins.
func satisfiable(said string) string {
	list, found := strings.CutPrefix(said, "bytes=")
	if !found {
		return said
	}
	specs := strings.Split(list, ",")
	for i, spec := range specs {
		first, last, _ := strings.Cut(spec, "-")
		if n, err := strconv.ParseInt(textproto.TrimString(last), 10, 64); textproto.TrimString(first) == "" && err == nil && n == 0 {
			specs[i] = "9223372036854775807-"
		}
	}
	return "bytes=" + strings.Join(specs, ",")
}

// failing remembers why reading ended.
type failing struct {
	io.ReadSeeker
	begun bool
	err   error
}

func (f *failing) Read(p []byte) (int, error) {
	n, err := f.ReadSeeker.Read(p)
	f.begun = f.begun || n > 0
	if err != nil && !errors.Is(err, io.EOF) {
		f.err = err
	}
	return n, err
}
