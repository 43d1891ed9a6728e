package h2guard

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// TestHTTP2HeadDeadline: frames do not extend the time of a header block, and a block in
// time is left alone.
func TestHTTP2HeadDeadline(t *testing.T) {
	for name, goOn := range map[string]func(fr *http2.Framer) error{
		"silence":        func(*http2.Framer) error { return nil },
		"continuation":   func(fr *http2.Framer) error { return fr.WriteContinuation(1, false, nil) },
		"slow fragments": func(fr *http2.Framer) error { return fr.WriteContinuation(1, false, []byte{0x82}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, server := net.Pipe()
				var cuts atomic.Uint64
				g := Client(server, 10*time.Second, &cuts)
				read := make(chan error, 1)
				go func() {
					_, err := io.Copy(io.Discard, struct{ io.Reader }{g})
					read <- err
				}()
				_, err := io.WriteString(client, http2.ClientPreface)
				must(t, err)
				fr := http2.NewFramer(client, nil)
				whole := http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x82}, EndHeaders: true}
				for range 5 { // in time, each
					must(t, fr.WriteHeaders(whole))
					time.Sleep(7 * time.Second)
				}
				split := whole
				split.EndHeaders = false
				must(t, fr.WriteHeaders(split))
				time.Sleep(9 * time.Second)
				must(t, fr.WriteContinuation(1, true, nil))
				time.Sleep(time.Minute)
				if len(read) > 0 || cuts.Load() > 0 {
					t.Fatal("a connection was cut whose heads came in time")
				}
				must(t, fr.WriteHeaders(split))
				start := time.Now()
				for len(read) == 0 && time.Since(start) < time.Minute && goOn(fr) == nil {
					time.Sleep(time.Second)
					synctest.Wait()
				}
				if took := time.Since(start); took > 11*time.Second || took < 10*time.Second || cuts.Load() != 1 {
					t.Errorf("it was cut after %v, %d times", took, cuts.Load())
				}
				must(t, client.Close())
				if err := <-read; !errors.Is(err, errHeadLate) {
					t.Error(err)
				}
				must(t, g.Close())
			})
		})
	}
}

// TestFramesInPieces: frames are found however the bytes come.
func TestFramesInPieces(t *testing.T) {
	var b bytes.Buffer
	fr := http2.NewFramer(&b, nil)
	b.WriteString(http2.ClientPreface)
	must(t, fr.WriteSettings())
	must(t, fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x82, 0x84}, EndHeaders: true,
		PadLength: 3}))
	must(t, fr.WriteData(1, false, []byte("some")))
	must(t, fr.WriteDataPadded(1, false, []byte("more"), make([]byte, 7)))
	must(t, fr.WriteDataPadded(1, false, nil, make([]byte, 7)))
	must(t, fr.WriteDataPadded(1, false, nil, []byte{}))
	must(t, fr.WriteData(1, false, nil))
	must(t, fr.WritePing(false, [8]byte{}))
	must(t, fr.WriteData(1, true, nil))
	const want = "4 idle,1,0,0,0 idle,0 idle,0 idle,6 idle,0,"
	for size := 1; size <= b.Len(); size++ {
		f, got, ends := frames{preface: http2.ClientPreface}, "", 0
		for all := b.Bytes(); len(all) > 0; all = all[min(size, len(all)):] {
			for piece := all[:min(size, len(all))]; len(piece) > 0; {
				n, err := f.step(piece)
				must(t, err)
				piece = piece[n:]
				if f.begun {
					got += string(rune('0' + f.kind))
					if f.idle() {
						got += " idle"
					}
					got += ","
				}
				if f.ended {
					ends++
				}
			}
		}
		if got != want || ends != 9 {
			t.Fatalf("in pieces of %d: %q and %d ends, want %q", size, got, ends, want)
		}
	}
}

// TestFrameBudget: a rate is allowed for ever, what is answered is free, and a flood ends.
func TestFrameBudget(t *testing.T) {
	now := time.Unix(0, 0)
	clock := func() time.Time { return now }
	b := frameBudget{left: MaxIdleFrames, at: now}
	for range 100 * idleFramesRate {
		if !b.spend(clock) {
			t.Fatal("the rate is not allowed")
		}
		now = now.Add(time.Second / idleFramesRate)
	}
	for range 100 * MaxIdleFrames / idleFramesFor {
		b.earn(idleFramesFor)
		for range idleFramesFor {
			if !b.spend(clock) {
				t.Fatal("what is answered is not free")
			}
		}
	}
	n := 0
	for ; b.spend(clock); n++ {
	}
	if n > 2*MaxIdleFrames {
		t.Errorf("%d at once", n)
	}
}
