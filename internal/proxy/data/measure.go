package data

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/proxy/failure"
	"github.com/verge-edge/verge/internal/wire"
)

// Round trips are measured on the data path itself: a connection like those that
// carry clients, on which one side sends small frames and the other answers each
// at once. It is kept for a while, because a handshake costs a hundred times what
// an echo does, and not longer, because a connection at rest costs packets too.
const (
	// MaxEcho bounds what two workers say to each other in a frame.
	MaxEcho = 1 << 10
	// echoRounds are exchanged in one measurement; the shortest counts, since the others waited
	// for a processor somewhere.
	echoRounds = 3
	// echoKept is how long a connection is kept after a measurement, echoIdle how long
	// the other side waits for the next.
	echoKept = 45 * time.Second
	echoIdle = 60 * time.Second
	// maxEchoConns are kept at a time.
	maxEchoConns = 256

	echoInstance, echoPort = "measure", "rtt"
)

// echoConns are the connections on which this worker measures, by address.
type echoConns struct {
	mu     sync.Mutex // guards below
	by     map[string]*echoConn
	closed bool
}

// echoConn is one of them, in nobody's hands.
type echoConn struct {
	conn  *tls.Conn
	done  func()
	timer *time.Timer
}

func (c *echoConn) close() {
	_ = c.conn.Close() // nothing is lost with it
	c.done()
}

// take gives a kept connection out of hands; nil where there is none.
func (k *echoConns) take(addr string) *echoConn {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.by[addr]
	if c == nil || !c.timer.Stop() {
		return nil
	}
	delete(k.by, addr)
	return c
}

// keep puts one back.
func (k *echoConns) keep(addr string, c *echoConn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed || k.by[addr] != nil || len(k.by) >= maxEchoConns {
		c.close()
		return
	}
	if k.by == nil {
		k.by = map[string]*echoConn{}
	}
	k.by[addr] = c
	c.timer = time.AfterFunc(echoKept, func() {
		k.mu.Lock()
		if k.by[addr] == c {
			delete(k.by, addr)
		}
		k.mu.Unlock()
		c.close()
	})
}

// close closes all that are kept.
func (k *echoConns) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	for addr, c := range k.by {
		if c.timer.Stop() {
			c.close()
		}
		delete(k.by, addr)
	}
}

// Measure measures the round trip to a worker over the data path. It says what is
// given, at most MaxEcho bytes, and returns what the other side answers, nothing
// where that is too old for it.
func (d *Dialer) Measure(ctx context.Context, w Worker, say []byte) (rtt time.Duration, answer []byte, err error) {
	if len(say) > MaxEcho {
		return 0, nil, fmt.Errorf("measure: %d bytes to say, at most %d", len(say), MaxEcho)
	}
	if c := d.measures.take(w.Address); c != nil {
		if rtt, answer, err = d.measureOn(ctx, c.conn, say); err == nil {
			d.measures.keep(w.Address, c)
			return rtt, answer, nil
		}
		c.close() // the other side may have been restarted
		if ctx.Err() != nil {
			return 0, nil, err
		}
	}
	e := wire.Endpoint{Instance: echoInstance, Cluster: w.Cluster, Worker: w.Name, Address: w.Address}
	begin := time.Now()
	conn, err := d.Open(ctx, e, Preamble{Instance: echoInstance, Port: echoPort, measure: true})
	if err != nil {
		if failure.NotNow(err) {
			return 0, nil, fmt.Errorf("measure: worker %s is too old to be measured (its answer took %v with "+
				"everything)", w.Name, time.Since(begin).Round(time.Millisecond))
		}
		return 0, nil, fmt.Errorf("measure: %w", err)
	}
	c := &echoConn{conn: conn, done: d.Paths.Add(conn, w.Address)}
	if rtt, answer, err = d.measureOn(ctx, conn, say); err != nil {
		c.close()
		return 0, nil, err
	}
	d.measures.keep(w.Address, c)
	return rtt, answer, nil
}

// measureOn exchanges some frames and takes the least time.
func (d *Dialer) measureOn(ctx context.Context, conn *tls.Conn, say []byte) (rtt time.Duration, answer []byte,
	err error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := conn.SetDeadline(time.Now().Add(PathTimeout)); err != nil {
		return 0, nil, fmt.Errorf("measure: set deadline: %w", err)
	}
	for n := range echoRounds {
		begin := time.Now()
		if err := writeFrame(conn, say); err != nil {
			return 0, nil, fmt.Errorf("measure: %w", err)
		}
		said, err := readFrame(conn)
		if err != nil {
			return 0, nil, fmt.Errorf("measure: %w", err)
		}
		took := time.Since(begin)
		if n == 0 {
			answer, rtt, say = said, took, nil // the others only for the time
		}
		rtt = min(rtt, took)
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return 0, nil, fmt.Errorf("measure: clear deadline: %w", err)
	}
	return rtt, answer, nil
}

// echo answers frames until the other side ends or rests too long.
func (d *Port) echo(conn *tls.Conn) {
	peer := conn.ConnectionState()
	for {
		if conn.SetDeadline(time.Now().Add(echoIdle)) != nil {
			return
		}
		said, err := readFrame(conn)
		if err != nil {
			return
		}
		var answer []byte
		if len(said) > 0 && d.opts.Echo != nil {
			answer = d.opts.Echo(peer, said)
		}
		if len(answer) > MaxEcho {
			answer = nil
		}
		if writeFrame(conn, answer) != nil {
			return
		}
	}
}

var errFrame = errors.New("a frame is too long")

// writeFrame writes a length of two bytes and what is said, in one piece.
func writeFrame(w io.Writer, say []byte) error {
	_, err := w.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(say))), say...))
	return err
}

func readFrame(r io.Reader) ([]byte, error) {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint16(head[:])
	if n > MaxEcho {
		return nil, errFrame
	}
	said := make([]byte, n)
	_, err := io.ReadFull(r, said)
	return said, err
}
