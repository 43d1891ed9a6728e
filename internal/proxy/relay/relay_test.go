package relay

import (
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-edge/verge/internal/proxy/counters"
)

// pipeEnd is one end of a pipe that can be half-closed.
type pipeEnd struct {
	net.Conn
	over chan struct{} // closed by the other end's CloseWrite
	half chan struct{} // closed by ours
	once sync.Once
}

func newPipe() (a, b *pipeEnd) {
	x, y := net.Pipe()
	one, two := make(chan struct{}), make(chan struct{})
	return &pipeEnd{Conn: x, over: one, half: two}, &pipeEnd{Conn: y, over: two, half: one}
}

func (p *pipeEnd) CloseWrite() error {
	p.once.Do(func() {
		close(p.half)
	})
	return nil
}

// Read ends when the other end has half-closed.
func (p *pipeEnd) Read(b []byte) (int, error) {
	select {
	case <-p.over:
		return 0, io.EOF
	default:
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-p.over:
			_ = p.SetReadDeadline(time.Unix(1, 0))
		case <-done:
		}
	})
	n, err := p.Conn.Read(b)
	close(done)
	wg.Wait()
	select {
	case <-p.over:
		return n, io.EOF
	default:
		return n, err
	}
}

// One direction of a relay may rest for as long as it likes, as long as the other
// has not ended.
func TestHalfClosedRelaysEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, clientHere := newPipe()
		instance, instanceHere := newPipe()
		ended := make(chan struct{})
		start := time.Now()
		go func() {
			defer close(ended)
			relay(clientHere, instanceHere, new(counters.Bytes))
		}()
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		select {
		case <-ended:
			t.Fatal("a connection that rests was cut")
		default:
		}
		must(t, client.CloseWrite())
		buf := make([]byte, 16)
		for range 5 { // slow, but it moves
			time.Sleep(halfClosedIdle - time.Minute)
			go func() { _, _ = instance.Write([]byte("x")) }()
			if _, err := client.Read(buf); err != nil {
				t.Fatalf("after %s: %v", time.Since(start), err)
			}
		}
		begin := time.Now()
		<-ended
		if d := time.Since(begin); d < halfClosedIdle-time.Second || d > halfClosedIdle+time.Second {
			t.Errorf("it was cut after %s", d)
		}
		_, _ = client.Close(), instance.Close()
	})
}
