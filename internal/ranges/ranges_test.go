package ranges_test

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/ranges"
)

const content = "0123456789"

func get(t *testing.T, header string, from io.ReadSeeker) (*httptest.ResponseRecorder, error) {
	t.Helper()
	req := httptest.NewRequest(http.MethodGet, "/x", nil)
	req.Header.Set("Range", header)
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "text/plain")
	return w, ranges.Serve(w, req, time.Time{}, from)
}

// isPart: a body is what its Content-Range says.
func isPart(said, body string) bool {
	var from, to, all int
	if n, err := fmt.Sscanf(said, "bytes %d-%d/%d", &from, &to, &all); n != 3 || err != nil {
		return false
	}
	return all == len(content) && from >= 0 && from <= to && to < all && content[from:to+1] == body
}

// Whatever range is asked for, what comes is the whole, or the parts that it says it
// is and no more than the whole together, or a refusal.
func FuzzRange(f *testing.F) {
	for _, r := range []string{
		"bytes=0-", "bytes=-1", "bytes=0-0,2-3", "bytes=9-99", "bytes=", "bytes=a-b", "bytes=-", "x", "bytes=18446744073709551615-",
		"bytes=0-0,0-0,0-0", "bytes=-0", "bytes=- 0", "bytes=-99", "bytes=3-2", "bytes= 1 - 2", "bytes=1-2,-3,99-", "items=0-1", "bytes=0-4,5-9,0-0",
	} {
		f.Add(r)
	}
	f.Fuzz(func(t *testing.T, header string) {
		w, err := get(t, header, strings.NewReader(content))
		if err != nil {
			t.Fatalf("%q: %v", header, err)
		}
		body := w.Body.String()
		kind, params, _ := mime.ParseMediaType(w.Header().Get("Content-Type"))
		switch {
		case w.Code == http.StatusOK && body == content:
		case w.Code == http.StatusRequestedRangeNotSatisfiable:
		case w.Code == http.StatusPartialContent && kind != "multipart/byteranges":
			if !isPart(w.Header().Get("Content-Range"), body) {
				t.Errorf("%q: %s is %q", header, w.Header().Get("Content-Range"), body)
			}
		case w.Code == http.StatusPartialContent:
			sent := 0
			for parts := multipart.NewReader(w.Body, params["boundary"]); ; {
				p, err := parts.NextPart()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatalf("%q: %v in %q", header, err, body)
				}
				part, err := io.ReadAll(p)
				if err != nil || !isPart(p.Header.Get("Content-Range"), string(part)) {
					t.Errorf("%q: %s is %q, %v", header, p.Header.Get("Content-Range"), part, err)
				}
				sent += len(part)
			}
			if sent > len(content) {
				t.Errorf("%q: %d bytes for %d", header, sent, len(content))
			}
		default:
			t.Errorf("%q: %d %q", header, w.Code, body)
		}
	})
}

func TestTheLastNone(t *testing.T) {
	for header, want := range map[string]int{"bytes=-0": 416, "bytes=-00,-0 ,-0": 416, "bytes=-0,1-2": 206, "bytes=1-2, -0": 206, "bytes=-01": 206, "bytes=0-0": 206, "bytes=2-0": 416, "bytes=-  +0": 416} {
		if w, err := get(t, header, strings.NewReader(content)); err != nil || w.Code != want {
			t.Errorf("%s: %d %v, not %d", header, w.Code, err, want)
		}
	}
	if w, err := get(t, "bytes=-5", strings.NewReader("")); err != nil || w.Code != 200 || w.Header().Get("Content-Range") != "" {
		t.Errorf("of nothing: %d %v %v", w.Code, err, w.Header())
	}
}

// broken fails after so many bytes.
type broken struct {
	*strings.Reader
	after int
}

var errDisk = errors.New("the disk is gone")

func (b *broken) Read(p []byte) (int, error) {
	if b.after == 0 {
		return 0, errDisk
	}
	n, err := b.Reader.Read(p[:min(len(p), b.after)])
	b.after -= n
	return n, err
}

func TestWhatBreaksOffDoesNotLookWhole(t *testing.T) {
	if w, err := get(t, "", &broken{strings.NewReader(content), 0}); !errors.Is(err, errDisk) || w.Body.Len() > 0 {
		t.Errorf("before the first byte: %v, %q", err, w.Body)
	}
	defer func() {
		if r := recover(); r != http.ErrAbortHandler { //nolint:errorlint // it is this value
			t.Errorf("after four bytes: %v", r)
		}
	}()
	_, err := get(t, "bytes=2-", &broken{strings.NewReader(content), 4})
	t.Errorf("after four bytes it returned %v", err)
}
