package h2server

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/verge-edge/verge/internal/proxy/frames"
)

// dialed is a client that writes frames itself.
func dialed(t testing.TB, addr string) (net.Conn, *http2.Framer) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	must(t, c.SetDeadline(time.Now().Add(30*time.Second)))
	_, err = io.WriteString(c, http2.ClientPreface)
	must(t, err)
	fr := http2.NewFramer(c, c)
	fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	must(t, fr.WriteSettings())
	return c, fr
}

// block is a head without compression.
func block(fields ...string) []byte {
	var b bytes.Buffer
	enc := hpack.NewEncoder(&b)
	for i := 0; i < len(fields); i += 2 {
		_ = enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1], Sensitive: true}) // to memory
	}
	return b.Bytes()
}

func usual(path string) []string {
	return []string{":method", "POST", ":scheme", "http", ":path", path, ":authority", "a"}
}

func open(t testing.TB, fr *http2.Framer, id uint32, path string, end bool) {
	t.Helper()
	must(t, fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block(usual(path)...), EndHeaders: true,
		EndStream: end}))
}

// Who breaks the rules loses the stream, or the connection, with the code of RFC 9113, and the
// others go on.
func TestRules(t *testing.T) {
	t.Parallel()
	addr := served(t, Options{MaxHead: 4 << 10, MaxStreams: 3}, func(w http.ResponseWriter, req *http.Request) {
		if _, err := io.Copy(io.Discard, req.Body); err == nil {
			_, _ = io.WriteString(w, "whole")
		}
	})
	head := func(id uint32, end bool, fields ...string) func(fr *http2.Framer) error {
		return func(fr *http2.Framer) error {
			return fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block(fields...), EndHeaders: true,
				EndStream: end})
		}
	}
	data := func(id uint32, end bool, n int) func(fr *http2.Framer) error {
		return func(fr *http2.Framer) error { return fr.WriteData(id, end, make([]byte, n)) }
	}
	with := func(more ...string) []string { return append(usual("/"), more...) }
	type does = func(fr *http2.Framer) error
	for name, tc := range map[string]struct {
		do     []does
		reset  http2.ErrCode // of stream 1
		goAway http2.ErrCode
		status string // of stream 1
	}{
		"no path":              {do: []does{head(1, true, ":method", "GET", ":scheme", "http")}, reset: http2.ErrCodeProtocol},
		"a scheme of its own":  {do: []does{head(1, true, ":method", "GET", ":scheme", "ftp", ":path", "/")}, reset: http2.ErrCodeProtocol},
		"a path that is none":  {do: []does{head(1, true, ":method", "GET", ":scheme", "http", ":path", "a b")}, reset: http2.ErrCodeProtocol},
		"extended CONNECT":     {do: []does{head(1, false, with(":protocol", "websocket")...)}, reset: http2.ErrCodeProtocol},
		"a connection field":   {do: []does{head(1, true, with("connection", "x")...)}, status: "400"},
		"a coding":             {do: []does{head(1, true, with("transfer-encoding", "chunked")...)}, status: "400"},
		"te":                   {do: []does{head(1, true, with("te", "gzip")...)}, status: "400"},
		"te trailers":          {do: []does{head(1, true, with("te", "trailers")...)}, status: "200"},
		"capital letters":      {do: []does{head(1, true, with("X-Y", "z")...)}, reset: http2.ErrCodeProtocol},
		"a large head":         {do: []does{head(1, true, with("x", strings.Repeat("y", 3<<10), "z", strings.Repeat("y", 3<<10))...)}, status: "431"},
		"less than announced":  {do: []does{head(1, false, with("content-length", "5")...), data(1, true, 4)}, reset: http2.ErrCodeProtocol},
		"more than announced":  {do: []does{head(1, false, with("content-length", "5")...), data(1, false, 6)}, reset: http2.ErrCodeProtocol},
		"no body, announced":   {do: []does{head(1, true, with("content-length", "5")...)}, reset: http2.ErrCodeProtocol},
		"a length of letters":  {do: []does{head(1, false, with("content-length", "five")...)}, reset: http2.ErrCodeProtocol},
		"as announced":         {do: []does{head(1, false, with("content-length", "5")...), data(1, true, 5)}, status: "200"},
		"a second head":        {do: []does{head(1, false, with()...), head(1, false, with()...)}, reset: http2.ErrCodeProtocol},
		"trailers":             {do: []does{head(1, false, with()...), data(1, false, 5), head(1, true, "x-sum", "1")}, status: "200"},
		"forbidden trailers":   {do: []does{head(1, false, with()...), head(1, true, "content-length", "1")}, reset: http2.ErrCodeProtocol},
		"data after the end":   {do: []does{head(1, false, with()...), head(3, true, with()...), data(3, false, 1)}, goAway: http2.ErrCodeNo},
		"an even stream":       {do: []does{head(2, true, with()...)}, goAway: http2.ErrCodeProtocol},
		"data before its head": {do: []does{data(1, true, 1)}, goAway: http2.ErrCodeProtocol},
		"depends on itself": {do: []does{func(fr *http2.Framer) error {
			return fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block(usual("/")...), EndHeaders: true,
				EndStream: true, Priority: http2.PriorityParam{StreamDep: 1, Weight: 1}})
		}}, reset: http2.ErrCodeProtocol},
		"too many at a time": {do: []does{head(3, false, with()...), head(5, false, with()...), head(7, false, with()...),
			head(9, false, with()...)}, goAway: http2.ErrCodeRefusedStream},
		"a window too large": {do: []does{head(1, false, with()...), func(fr *http2.Framer) error {
			return fr.WriteWindowUpdate(1, frames.MaxWindow)
		}}, reset: http2.ErrCodeFlowControl},
		"a window of the connection too large": {do: []does{func(fr *http2.Framer) error {
			return fr.WriteWindowUpdate(0, frames.MaxWindow)
		}}, goAway: http2.ErrCodeFlowControl},
		"a push": {do: []does{func(fr *http2.Framer) error {
			return fr.WritePushPromise(http2.PushPromiseParam{StreamID: 1, PromiseID: 2, EndHeaders: true,
				BlockFragment: block(usual("/")...)})
		}}, goAway: http2.ErrCodeProtocol},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, fr := dialed(t, addr)
			for _, do := range tc.do {
				must(t, do(fr))
			}
			must(t, fr.WritePing(false, [8]byte{1}))
			var reset, refused, goAway http2.ErrCode
			status := ""
			for pinged := false; !pinged || tc.status != "" && status == ""; {
				f, err := fr.ReadFrame()
				if err != nil {
					break
				}
				switch f := f.(type) {
				case *http2.PingFrame:
					pinged = f.IsAck()
				case *http2.MetaHeadersFrame:
					if f.StreamID == 1 {
						status = f.PseudoValue("status")
					}
				case *http2.RSTStreamFrame:
					if f.StreamID == 1 {
						reset = f.ErrCode
					} else if f.StreamID == 9 {
						refused = f.ErrCode
					}
				case *http2.GoAwayFrame:
					goAway = f.ErrCode
				}
			}
			if tc.goAway == http2.ErrCodeRefusedStream { // of one stream, not of the connection
				goAway = refused
			}
			if reset != tc.reset || goAway != tc.goAway || status != tc.status {
				t.Errorf("reset %s, goodbye %s, status %q; want %s, %s, %q", reset, goAway, status, tc.reset, tc.goAway, tc.status)
			}
		})
	}
}

// A client that asks for answers and reads none is cut.
func TestDeafClient(t *testing.T) {
	t.Parallel()
	addr := served(t, Options{}, func(http.ResponseWriter, *http.Request) {})
	c, _ := dialed(t, addr)
	var pings bytes.Buffer
	fr := http2.NewFramer(&pings, nil)
	for range 4096 {
		must(t, fr.WritePing(false, [8]byte{1}))
	}
	for {
		if _, err := c.Write(pings.Bytes()); err != nil {
			break // it was cut
		}
	}
	_ = c.Close()
}

// Whatever a client sends, the connection ends with it, and all that belongs to it.
func FuzzServe(f *testing.F) {
	var b bytes.Buffer
	fr := http2.NewFramer(&b, nil)
	_ = fr.WriteSettings() // to memory, as what follows
	_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block(usual("/")...), EndHeaders: true})
	_ = fr.WriteData(1, false, []byte("body"))
	_ = fr.WriteWindowUpdate(1, 10)
	_ = fr.WriteRSTStream(1, http2.ErrCodeCancel)
	_ = fr.WritePing(false, [8]byte{})
	_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: block(usual("/x")...), EndHeaders: true,
		EndStream: true})
	f.Add(b.Bytes())
	f.Fuzz(func(_ *testing.T, said []byte) {
		ours, theirs := net.Pipe()
		over := make(chan struct{})
		go func() {
			defer close(over)
			Serve(context.Background(), ours, Options{Idle: time.Minute, MaxHead: 4 << 10, MaxStreams: 4, Log: quiet,
				Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
					_, _ = io.Copy(w, req.Body)
				})})
		}()
		read := make(chan struct{})
		go func() {
			defer close(read)
			_, _ = io.Copy(io.Discard, theirs)
		}()
		_, _ = theirs.Write(append([]byte(http2.ClientPreface), said...))
		_ = theirs.Close()
		<-over
		<-read
	})
}
