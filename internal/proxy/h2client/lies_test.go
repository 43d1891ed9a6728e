package h2client

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/verge-edge/verge/internal/proxy/frames"
)

// frame is one as it is on the wire.
func frame(kind http2.FrameType, flags http2.Flags, id uint32, payload string) string {
	b := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), byte(kind), byte(flags)}
	return string(binary.BigEndian.AppendUint32(b, id)) + payload
}

// Whatever a server sends, a request ends with an error, and either the stream is reset
// or the connection has ended; what comes after it is asked elsewhere.
func TestServerLies(t *testing.T) {
	ok := func(s *server, id uint32) { s.headers(id, false, ":status", "200") }
	for name, c := range map[string]struct {
		say    func(s *server, id uint32)
		stream bool // only the stream is lost
	}{
		"no settings first": {func(s *server, _ uint32) { must(s.t, s.fr.WritePing(false, [8]byte{})) }, false},
		"data before a head": {func(s *server, id uint32) { must(s.t, s.fr.WriteData(id, false, []byte("x"))) },
			true},
		"a stream nobody opened": {func(s *server, id uint32) { s.headers(id+2, true, ":status", "200") }, false},
		"data of such a one": {func(s *server, id uint32) { must(s.t, s.fr.WriteData(id+2, false, []byte("x"))) },
			false},
		"an even stream": {func(s *server, _ uint32) { s.headers(2, true, ":status", "200") }, false},
		"a push": {func(s *server, id uint32) {
			must(s.t, s.fr.WritePushPromise(http2.PushPromiseParam{StreamID: id, PromiseID: 2, EndHeaders: true}))
		}, false},
		"no status":              {func(s *server, id uint32) { s.headers(id, true, "a", "b") }, true},
		"a status of letters":    {func(s *server, id uint32) { s.headers(id, true, ":status", "abc") }, true},
		"a status of two digits": {func(s *server, id uint32) { s.headers(id, true, ":status", "20") }, true},
		"a status with a sign":   {func(s *server, id uint32) { s.headers(id, true, ":status", "+20") }, true},
		"switching protocols":    {func(s *server, id uint32) { s.headers(id, true, ":status", "101") }, true},
		"a path in an answer": {func(s *server, id uint32) { s.headers(id, true, ":status", "200", ":path", "/") },
			true},
		"a name in capitals": {func(s *server, id uint32) { s.headers(id, true, ":status", "200", "Abc", "b") },
			true},
		"a line break": {func(s *server,
			id uint32) {
			s.headers(id, true, ":status", "200", "abc", "b\r\nc: d")
		}, true},
		"an interim that ends": {func(s *server, id uint32) { s.headers(id, true, ":status", "103") }, true},
		"a hundred interims": {func(s *server, id uint32) {
			for range maxInterims + 1 {
				s.headers(id, false, ":status", "103")
			}
		}, true},
		"a second head": {func(s *server, id uint32) { ok(s, id); ok(s, id) }, true},
		"trailers with a status": {func(s *server, id uint32) { ok(s, id); s.headers(id, true, ":status", "200") },
			true},
		"trailers and more": {func(s *server, id uint32) { ok(s, id); s.headers(id, false, "a", "b") }, true},
		"a length of letters": {func(s *server,
			id uint32) {
			s.headers(id, false, ":status", "200", "content-length", "x")
		}, true},
		"two lengths": {func(s *server, id uint32) {
			s.headers(id, false, ":status", "200", "content-length", "1", "content-length", "2")
		}, true},
		"less than announced": {func(s *server, id uint32) {
			s.headers(id, false, ":status", "200", "content-length", "5")
			must(s.t, s.fr.WriteData(id, true, []byte("1234")))
		}, true},
		"more than announced": {func(s *server, id uint32) {
			s.headers(id, false, ":status", "200", "content-length", "3")
			must(s.t, s.fr.WriteData(id, true, []byte("1234")))
		}, true},
		"a length and no body": {func(s *server,
			id uint32) {
			s.headers(id, true, ":status", "200", "content-length", "3")
		}, true},
		"a large value": {func(s *server, id uint32) {
			s.headers(id, true, ":status", "200", "a", strings.Repeat("a", 20<<10))
		}, false},
		"many headers": {func(s *server, id uint32) {
			s.headers(id, true, append([]string{":status", "200"}, slices.Repeat([]string{"a", "b"}, 1000)...)...)
		}, true},
		"a head without end": {func(s *server, id uint32) {
			s.headers(id, false, ":status", "200")
			must(s.t, s.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte("\x00\x01a\x01b")}))
			for range 10_000 {
				must(s.t, s.fr.WriteContinuation(id, false, []byte(strings.Repeat("\x00\x01a\x01b", 100))))
			}
		}, false},
		"no HPACK": {func(s *server, id uint32) {
			_, err := io.WriteString(s,
				frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders, id, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"))
			must(s.t, err)
		}, false},
		"a frame that is too large": {func(s *server, _ uint32) {
			_, err := io.WriteString(s, "\xff\xff\xff\x00\x00\x00\x00\x00\x01")
			must(s.t, err)
		}, false},
		"a window without end": {func(s *server, id uint32) {
			must(s.t, s.fr.WriteWindowUpdate(id, frames.MaxWindow))
		}, true},
		"a connection's too":  {func(s *server, _ uint32) { must(s.t, s.fr.WriteWindowUpdate(0, frames.MaxWindow)) }, false},
		"no more of a window": {func(s *server, id uint32) { must(s.t, s.fr.WriteWindowUpdate(id, 0)) }, true},
		"large settings": {func(s *server, _ uint32) {
			must(s.t, s.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 31}))
		}, false},
		"small frames": {func(s *server, _ uint32) {
			must(s.t, s.fr.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1}))
		}, false},
		"may push": {func(s *server, _ uint32) {
			must(s.t, s.fr.WriteSettings(http2.Setting{ID: http2.SettingEnablePush, Val: 1}))
		}, false},
		"HTTP/1.1": {func(s *server, _ uint32) {
			_, err := io.WriteString(s, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
			must(s.t, err)
		}, false},
		"a reset": {func(s *server, id uint32) { must(s.t, s.fr.WriteRSTStream(id, http2.ErrCodeInternal)) }, true},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			in(t, Options{MaxHead: 16 << 10}, func(t *testing.T, p *conns, cl *Client) {
				r := ask(cl, get(t))
				s := p.raw()
				if name != "no settings first" {
					must(t, s.fr.WriteSettings())
				}
				id := s.request().StreamID
				go func() { // what the client says about it
					for {
						if _, err := s.nc.Read(make([]byte, 4096)); err != nil {
							return
						}
					}
				}()
				c.say(s, id)
				if got := <-r; got.err == nil {
					t.Errorf("it was taken for an answer: %q", got.body)
				}
				synctest.Wait()
				next := ask(cl, get(t))
				synctest.Wait()
				if c.stream {
					s.answer(id+2, "next")
				} else {
					s2 := p.serve()
					s2.answer(s2.request().StreamID, "next")
					defer s2.close()
				}
				(<-next).is(t, "next")
				s.close()
			})
		})
	}
}

// What nobody reads waits here, but no more than the server was allowed.
func TestMoreThanTheWindow(t *testing.T) {
	in(t, Options{}, func(t *testing.T, p *conns, cl *Client) {
		done, came := make(chan error, 1), make(chan struct{})
		go func() {
			res, err := cl.Do(get(t), Hooks{})
			if err == nil {
				<-came
				_, err = io.Copy(io.Discard, res.Body)
			}
			done <- err
		}()
		s := p.serve()
		id := s.request().StreamID
		s.headers(id, false, ":status", "200")
		for range streamWindow/frames.DefaultFrame + 1 {
			must(t, s.fr.WriteData(id, false, make([]byte, frames.DefaultFrame)))
		}
		if f := next[*http2.RSTStreamFrame](s); f.ErrCode != http2.ErrCodeFlowControl {
			t.Errorf("%v", f)
		}
		close(came)
		if err := <-done; err == nil {
			t.Error("taken for an answer")
		}
		s.close()
	})
}

// A server that asks for answers and reads none costs a bounded amount of memory.
func TestServerReadsNothing(t *testing.T) {
	in(t, Options{}, func(t *testing.T, p *conns, cl *Client) {
		r := ask(cl, get(t))
		s := p.serve()
		s.request()
		for range frames.MaxControl/17 + frames.DefaultFrame { // 17 bytes answer each
			must(t, s.fr.WritePing(false, [8]byte{}))
		}
		if got := <-r; got.err == nil {
			t.Error("it was answered")
		}
		s.close()
	})
}

// FuzzServer: whatever comes from a server, requests end, and nothing is left behind.
func FuzzServer(f *testing.F) {
	settings := frame(http2.FrameSettings, 0, 0, "")
	head := frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders, 1, "\x88")
	for _, seed := range []string{
		settings + head + frame(http2.FrameData, http2.FlagDataEndStream, 1, "body"),
		settings + head + frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders|http2.FlagHeadersEndStream, 1,
			"\x00\x01a\x01b"),
		settings + frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders, 1, "\x08\x03103") +
			frame(http2.FrameRSTStream, 0, 1, "\x00\x00\x00\x07"),
		settings + frame(http2.FrameGoAway, 0, 0, "\x00\x00\x00\x00\x00\x00\x00\x00"),
		frame(http2.FrameSettings, 0, 0, "\x00\x04\x00\x00\x00\x00\x00\x03\x00\x00\x00\x01\x00\x05\x00\x00\x40\x00") +
			frame(http2.FrameWindowUpdate, 0, 1, "\x00\x00\xff\xff"),
		settings + frame(http2.FramePing, 0, 0, "12345678") + frame(http2.FrameHeaders, 0, 1, "\x88") +
			frame(http2.FrameContinuation, http2.FlagContinuationEndHeaders, 1, "\x00\x01a\x01b"),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, says []byte) {
		synctest.Test(t, func(t *testing.T) {
			over := false
			cl := New(Options{MaxHead: 4096, Idle: time.Second, Dial: func(context.Context) (net.Conn, error) {
				if over {
					return nil, io.EOF
				}
				over = true
				a, b := net.Pipe()
				go func() {
					_, _ = io.Copy(io.Discard, b) // until it ends
				}()
				go func() {
					_, _ = b.Write(says) // as far as it is read
					time.Sleep(time.Minute)
					_ = b.Close()
				}()
				return a, nil
			}})
			a := ask(cl, post(t, strings.Repeat("x", 100_000)))
			b := ask(cl, get(t))
			for _, r := range []<-chan result{a, b} {
				if got := <-r; len(got.body) > len(says) {
					t.Errorf("%d bytes came of %d", len(got.body), len(says))
				}
			}
			cl.CloseIdleConnections()
			time.Sleep(2 * time.Minute) // of the virtual clock: the server has left
		})
	})
}
