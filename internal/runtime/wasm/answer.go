package wasm

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/runtime/wasm/cgi"
)

// answer turns what a module writes into the answer to a request.
type answer struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	begun bool   // the head is on its way
	buf   []byte // the head, as far as it is there
	err   error  // that nothing more is taken
	flush bool   // after each write
	held  bool   // something may not have been sent yet
	read  bool   // the body of the request has been read to its end
	// blocked is the time that was spent waiting for the other side, or for a turn.
	blocked time.Duration
	turn    *turn
}

// errBeyond: the body of an answer is longer than its Content-Length.
var errBeyond = errors.New("its answer is longer than the Content-Length that it gave")

// Write implements io.Writer for the output of a module.
func (a *answer) Write(p []byte) (int, error) {
	if a.err != nil {
		return 0, a.err
	}
	n := len(p)
	if !a.begun {
		a.buf = append(a.buf, p...)
		text, body, ok := cgi.SplitHead(a.buf)
		switch {
		case !ok && len(a.buf) > cgi.MaxHead, len(text) > cgi.MaxHead:
			a.err = cgi.NotCGI("its head is longer than %d bytes", cgi.MaxHead)
			return 0, a.err
		case !ok:
			return n, nil
		}
		h, err := cgi.ParseHead(text)
		if err != nil {
			a.err = err
			return 0, err
		}
		a.begin(h)
		p = body
	}
	if len(p) == 0 {
		return n, nil
	}
	start := time.Now()
	a.turn.give()
	_, err := a.w.Write(p)
	a.held = true
	if err == nil && a.flush {
		err = a.rc.Flush()
		a.held = false
	}
	a.turn.take()
	a.blocked += time.Since(start)
	switch {
	case errors.Is(err, http.ErrBodyNotAllowed): // 204, 304: it has none, whatever is written
		err = nil
	case errors.Is(err, http.ErrContentLength):
		err = errBeyond
	}
	if err != nil {
		a.err = err
		return 0, err
	}
	return n, nil
}

func (a *answer) begin(h cgi.Head) {
	a.begun, a.buf = true, nil
	header := a.w.Header()
	for name, values := range h.Fields {
		header[name] = values
	}
	if header.Get("Content-Type") == "" {
		header["Content-Type"] = nil // not to be guessed
	}
	a.flush = strings.HasPrefix(header.Get("Content-Type"), "text/event-stream")
	a.w.WriteHeader(h.Status)
}

// send sends what is held back: the module is about to wait for something.
func (a *answer) send() {
	if a.held && a.err == nil {
		a.held = false
		if err := a.rc.Flush(); err != nil {
			a.err = err
		}
	}
}

// source is the body of a request. Before it waits, what was answered is sent.
type source struct {
	io.Reader
	a *answer
}

func (s source) Read(p []byte) (int, error) {
	s.a.send()
	start := time.Now()
	s.a.turn.give()
	n, err := s.Reader.Read(p)
	s.a.turn.take()
	s.a.blocked += time.Since(start)
	s.a.read = s.a.read || err != nil
	return n, err
}
