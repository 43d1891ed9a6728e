package h2client

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/verge-edge/verge/internal/proxy/frames"
)

// in runs a test with a virtual clock, and makes sure that nothing goes on after it.
func in(t *testing.T, o Options, f func(t *testing.T, p *conns, cl *Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := newConns(t)
		if o.Dial = p.dial; o.MaxHead == 0 {
			o.MaxHead = 64 << 10
		}
		f(t, p, New(o))
	})
}

func TestGoAway(t *testing.T) {
	in(t, Options{}, func(t *testing.T, p *conns, cl *Client) {
		a, b := ask(cl, get(t)), ask(cl, get(t))
		s := p.serve()
		s.request()
		s.request()
		must(t, s.fr.WriteGoAway(1, http2.ErrCodeNo, nil))
		synctest.Wait()
		var rest <-chan result
		select { // which of both is stream 3 nobody knows
		case r := <-a:
			r.isUnprocessed(t, true)
			rest = b
		case r := <-b:
			r.isUnprocessed(t, true)
			rest = a
		}
		c := ask(cl, get(t)) // over another connection
		other := p.serve()
		other.answer(other.request().StreamID, "c")
		(<-c).is(t, "c")
		s.answer(1, "first")
		(<-rest).is(t, "first")
		if _, err := s.fr.ReadFrame(); err == nil {
			_, err = io.Copy(io.Discard, s.nc) // an acknowledgement, and the end
			must(t, err)
		}
		s.close()
		other.close()
	})
}

func TestRefused(t *testing.T) {
	in(t, Options{}, func(t *testing.T, p *conns, cl *Client) {
		for code, unprocessed := range map[http2.ErrCode]bool{http2.ErrCodeRefusedStream: true,
			http2.ErrCodeInternal: false, http2.ErrCodeNo: false} {
			r := ask(cl, get(t))
			s := p.serve()
			must(t, s.fr.WriteRSTStream(s.request().StreamID, code))
			(<-r).isUnprocessed(t, unprocessed)
			s.close()
			synctest.Wait()
		}
	})
}

// What is sent when the connection breaks may have been served; what was not sent not.
func TestBreaks(t *testing.T) {
	in(t, Options{}, func(t *testing.T, p *conns, cl *Client) {
		r := ask(cl, get(t))
		s := p.serve()
		s.request()
		s.close()
		got := <-r
		got.isUnprocessed(t, false)
		// Read first, it is an end of file; written first, what a pipe says for EPIPE.
		if !errors.Is(got.err, io.ErrUnexpectedEOF) && !errors.Is(got.err, io.ErrClosedPipe) {
			t.Errorf("it is not told as a break: %v", got.err)
		}
	})
}

// Who takes a request back has the server know, and makes room.
func TestCancel(t *testing.T) {
	in(t, Options{}, func(t *testing.T, p *conns, cl *Client) {
		ctx, cancel := context.WithCancel(t.Context())
		body, more := io.Pipe()
		r := ask(cl, newRequest(ctx, t, "POST", body))
		s := p.serve(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1})
		id := s.request().StreamID
		synctest.Wait()
		second := ask(cl, get(t)) // waits for room, or for another connection
		s2 := p.serve()
		s2.answer(s2.request().StreamID, "second")
		(<-second).is(t, "second")
		cancel()
		if got := <-r; !errors.Is(got.err, context.Canceled) {
			t.Errorf("%v", got.err)
		}
		if f := next[*http2.RSTStreamFrame](s); f.StreamID != id || f.ErrCode != http2.ErrCodeCancel {
			t.Errorf("the server was told %v", f)
		}
		must(t, more.Close()) // as a server does with the body of a request that is over
		third := ask(cl, get(t))
		s.answer(s.request().StreamID, "third")
		(<-third).is(t, "third")
		s.close()
		s2.close()
	})
}

// Who waits for room gets it as soon as there is some, where no more connections may be
// opened.
func TestRoom(t *testing.T) {
	in(t, Options{}, func(t *testing.T, p *conns, cl *Client) {
		var servers []*server
		var running []<-chan result
		for range maxConns {
			running = append(running, ask(cl, get(t)))
			s := p.serve(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1})
			s.request()
			servers = append(servers, s)
			synctest.Wait()
		}
		ctx, cancel := context.WithCancel(t.Context())
		impatient, patient := ask(cl, newRequest(ctx, t, "GET", nil)), ask(cl, get(t))
		synctest.Wait()
		cancel()
		if r := <-impatient; !errors.Is(r.err, context.Canceled) {
			t.Errorf("%v", r.err)
		}
		servers[7].answer(1, "one")
		(<-running[7]).is(t, "one")
		servers[7].answer(servers[7].request().StreamID, "patient")
		(<-patient).is(t, "patient")
		for _, s := range servers {
			s.close()
		}
	})
}

func TestIdle(t *testing.T) {
	in(t, Options{Idle: time.Minute}, func(t *testing.T, p *conns, cl *Client) {
		r := ask(cl, get(t))
		s := p.serve()
		id := s.request().StreamID
		time.Sleep(3 * time.Minute) // of the virtual clock: it does not rest
		s.answer(id, "x")
		(<-r).is(t, "x")
		began := time.Now()
		_, err := io.Copy(io.Discard, s.nc) // until it ends
		must(t, err)
		if d := time.Since(began); d < time.Minute || d > 2*time.Minute {
			t.Errorf("kept for %s", d)
		}
		s.close()
	})
}

func TestCloseIdle(t *testing.T) {
	in(t, Options{}, func(t *testing.T, p *conns, cl *Client) {
		r := ask(cl, get(t))
		s := p.serve()
		id := s.request().StreamID
		cl.CloseIdleConnections()
		next := ask(cl, get(t)) // over a new one
		s2 := p.serve()
		s2.answer(s2.request().StreamID, "next")
		(<-next).is(t, "next")
		s.answer(id, "x")
		(<-r).is(t, "x")
		_, err := io.Copy(io.Discard, s.nc)
		must(t, err)
		cl.CloseIdleConnections()
		_, err = io.Copy(io.Discard, s2.nc)
		must(t, err)
		s.close()
		s2.close()
	})
}

func TestOnce(t *testing.T) {
	in(t, Options{Once: true}, func(t *testing.T, p *conns, cl *Client) {
		for range 3 {
			r := ask(cl, get(t))
			s := p.serve()
			s.answer(s.request().StreamID, "x")
			(<-r).is(t, "x")
			_, err := io.Copy(io.Discard, s.nc)
			must(t, err)
			s.close()
		}
	})
}

// A dial is given up when nobody waits for it, and not before; one that fails is told to
// all who do.
func TestDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials := 0
		fails := errors.New("no way")
		cl := New(Options{Dial: func(wanted context.Context) (net.Conn, error) {
			dials++
			if dials == 1 {
				<-wanted.Done()
				return nil, wanted.Err()
			}
			time.Sleep(time.Second)
			return nil, fails
		}})
		one, leave := context.WithCancel(t.Context())
		two, leaveToo := context.WithCancel(t.Context())
		a, b := ask(cl, newRequest(one, t, "GET", nil)), ask(cl, newRequest(two, t, "GET", nil))
		synctest.Wait()
		leave()
		if r := <-a; !errors.Is(r.err, context.Canceled) || dials != 1 {
			t.Errorf("%v after %d", r.err, dials)
		}
		synctest.Wait()
		select {
		case r := <-b:
			t.Fatalf("it was given up for one: %v", r.err)
		default:
		}
		leaveToo()
		<-b
		a, b = ask(cl, get(t)), ask(cl, get(t))
		if r, s := <-a, <-b; !errors.Is(r.err, fails) || !errors.Is(s.err, fails) || dials != 2 {
			t.Errorf("%v, %v after %d", r.err, s.err, dials)
		}
	})
}

// GotConn may say that the request is not wanted any more; the room is free again.
func TestNotWanted(t *testing.T) {
	in(t, Options{}, func(t *testing.T, p *conns, cl *Client) {
		done := make(chan error, 1)
		go func() {
			_, err := cl.Do(get(t), Hooks{GotConn: func() bool { return false }})
			done <- err
		}()
		s := p.serve(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1})
		if err := <-done; err == nil {
			t.Error("it was sent")
		}
		r := ask(cl, get(t))
		s.answer(s.request().StreamID, "x")
		(<-r).is(t, "x")
		s.close()
	})
}

// Bodies go as the server's windows allow, which may also shrink.
func TestWindows(t *testing.T) {
	in(t, Options{}, func(t *testing.T, p *conns, cl *Client) {
		text := strings.Repeat("0123456789", 20_000)
		r := ask(cl, post(t, text))
		s := p.serve(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10})
		id := s.request().StreamID
		var got []byte
		take := func() bool {
			f := next[*http2.DataFrame](s)
			got = append(got, f.Data()...)
			return f.StreamEnded()
		}
		for len(got) < frames.DefaultWindow { // what it sent before it knew of the 10, or just these
			synctest.Wait()
			if len(got) > 0 {
				must(t, s.fr.WriteWindowUpdate(id, 20_000))
				must(t, s.fr.WriteWindowUpdate(0, 20_000))
			}
			if take() {
				break
			}
		}
		must(t, s.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}))
		must(t, s.fr.WriteWindowUpdate(0, 1<<30))
		must(t, s.fr.WriteWindowUpdate(id, 1<<30))
		for !take() { // until the end
		}
		if string(got) != text {
			t.Errorf("%d bytes of %d, or others", len(got), len(text))
		}
		s.answer(id, "ok")
		(<-r).is(t, "ok")
		s.close()
	})
}

// An answer that nobody reads fills its window, and no other is held up by it.
func TestSlowReader(t *testing.T) {
	in(t, Options{}, func(t *testing.T, p *conns, cl *Client) {
		type headOf struct {
			res *http.Response
			err error
		}
		heads := make(chan headOf, 100)
		const slow = connWindow/streamWindow + 5
		for range slow {
			go func() {
				res, err := cl.Do(get(t), Hooks{})
				heads <- headOf{res, err}
			}()
		}
		s := p.serve()
		go func() { // what the client says meanwhile
			for {
				if _, err := s.nc.Read(make([]byte, 4096)); err != nil {
					return
				}
			}
		}()
		synctest.Wait()
		chunk := make([]byte, frames.DefaultFrame)
		for i := range uint32(slow) {
			s.headers(2*i+1, false, ":status", "200")
			for range streamWindow / len(chunk) {
				must(t, s.fr.WriteData(2*i+1, false, chunk))
			}
		}
		synctest.Wait()
		r := ask(cl, get(t))
		synctest.Wait()
		s.answer(2*slow+1, "quick")
		(<-r).is(t, "quick")
		for range slow {
			h := <-heads
			must(t, h.err)
			if n, err := io.ReadFull(h.res.Body, make([]byte, streamWindow)); err != nil {
				t.Errorf("%d bytes, %v", n, err)
			}
			must(t, h.res.Body.Close())
		}
		s.close()
	})
}

// Who is always a little behind has no more waiting here than the window has.
func TestAlwaysBehind(t *testing.T) {
	in(t, Options{}, func(t *testing.T, p *conns, cl *Client) {
		heads := make(chan *http.Response, 1)
		go func() {
			res, err := cl.Do(get(t), Hooks{})
			if err != nil {
				t.Error(err)
			}
			heads <- res
		}()
		s := p.serve()
		id := s.request().StreamID
		go func() { // what the client says meanwhile
			for {
				if _, err := s.nc.Read(make([]byte, 4096)); err != nil {
					return
				}
			}
		}()
		s.headers(id, false, ":status", "200")
		res := <-heads
		chunk := make([]byte, frames.DefaultFrame)
		b := res.Body.(*stream)
		const behind = 10 // less than half of the window, when it is said that there is room
		for range behind {
			must(t, s.fr.WriteData(id, false, chunk)) // what stays unread
		}
		for i := range 2000 {
			chunk[0] = byte(i)
			must(t, s.fr.WriteData(id, false, chunk))
			synctest.Wait()
			if _, err := io.ReadFull(res.Body, chunk); err != nil {
				t.Fatal(err)
			}
			if want := byte(max(0, i-behind)); chunk[0] != want {
				t.Fatalf("%d came in place of %d", chunk[0], want)
			}
			if n := b.in.Len(); n > behind+2 {
				t.Fatalf("%d buffers are held after %d", n, i)
			}
		}
		must(t, res.Body.Close())
		s.close()
	})
}

func TestInterim(t *testing.T) {
	in(t, Options{}, func(t *testing.T, p *conns, cl *Client) {
		var seen []int
		done := make(chan error, 1)
		go func() {
			res, err := cl.Do(get(t), Hooks{Interim: func(code int, h textproto.MIMEHeader) {
				if h.Get("Link") != "x" {
					t.Errorf("with %v", h)
				}
				seen = append(seen, code)
			}})
			if err == nil {
				_, err = io.Copy(io.Discard, res.Body)
			}
			done <- err
		}()
		s := p.serve()
		id := s.request().StreamID
		s.headers(id, false, ":status", "103", "link", "x")
		synctest.Wait()
		s.headers(id, false, ":status", "102", "link", "x")
		s.answer(id, "")
		must(t, <-done)
		if len(seen) != 2 || seen[0] != 103 || seen[1] != 102 {
			t.Errorf("%v", seen)
		}
		s.close()
	})
}

// A body that is expected to be wanted waits for that, or for a second.
func TestExpectContinue(t *testing.T) {
	for _, says := range []bool{true, false} {
		in(t, Options{}, func(t *testing.T, p *conns, cl *Client) {
			req := post(t, "body")
			req.Header.Set("Expect", "100-continue")
			r := ask(cl, req)
			s := p.serve()
			id := s.request().StreamID
			began := time.Now()
			if says {
				s.headers(id, false, ":status", "100")
			}
			if f := next[*http2.DataFrame](s); string(f.Data()) != "body" {
				t.Errorf("%q", f.Data())
			}
			if d := time.Since(began); says != (d == 0) {
				t.Errorf("sent after %s", d)
			}
			s.answer(id, "ok")
			(<-r).is(t, "ok")
			s.close()
		})
	}
}

func TestPing(t *testing.T) {
	in(t, Options{}, func(t *testing.T, p *conns, cl *Client) {
		r := ask(cl, get(t))
		s := p.serve()
		id := s.request().StreamID
		must(t, s.fr.WritePing(false, [8]byte{1, 2, 3}))
		if f := next[*http2.PingFrame](s); !f.IsAck() || f.Data != [8]byte{1, 2, 3} {
			t.Errorf("%v", f)
		}
		s.answer(id, "x")
		(<-r).is(t, "x")
		s.close()
	})
}

// An answer that is over before the request ends that too.
func TestAnswersEarly(t *testing.T) {
	for _, withBody := range []bool{true, false} {
		in(t, Options{}, func(t *testing.T, p *conns, cl *Client) {
			body, more := io.Pipe()
			r := ask(cl, newRequest(t.Context(), t, "POST", body))
			s := p.serve()
			id := s.request().StreamID
			want := ""
			if withBody {
				want = "no"
				s.answer(id, want)
			} else {
				s.headers(id, true, ":status", "200")
			}
			(<-r).is(t, want)
			if f := next[*http2.RSTStreamFrame](s); f.ErrCode != http2.ErrCodeNo {
				t.Errorf("%v", f)
			}
			must(t, more.Close())
			s.close()
		})
	}
}
