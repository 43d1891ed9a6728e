package relay

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/proxy/counters"
	"github.com/verge-edge/verge/internal/proxy/netconn"
)

// Datagrams of clients that a gateway was sent go to an instance of this worker as
// they are, and to those of others over a stream, each with its length before it
// (2 bytes, big endian). A client and the instance that it was led to are a session
// for as long as one of them says something.
const (
	// DatagramIdle is how long both may be silent.
	DatagramIdle = 60 * time.Second
	// MaxSessions of one port, and MaxClientSessions of one client, that has a socket
	// for each.
	MaxSessions       = 4096
	MaxClientSessions = 256
	// MaxDatagram is what IP allows.
	MaxDatagram = 65_507
	// DatagramsWaiting are kept for an instance while the way to it is opened; what
	// comes beyond that is lost, as datagrams are.
	DatagramsWaiting = 32
)

// DatagramStream is a stream that carries datagrams: Read and Write are of one each.
type DatagramStream struct {
	net.Conn
	writing sync.Mutex
}

// Write implements net.Conn.
func (f *DatagramStream) Write(p []byte) (int, error) {
	if len(p) > MaxDatagram {
		return 0, fmt.Errorf("a datagram of %d bytes, at most %d", len(p), MaxDatagram)
	}
	f.writing.Lock()
	defer f.writing.Unlock()
	b := make([]byte, 0, 2+len(p))
	b = append(binary.BigEndian.AppendUint16(b, uint16(len(p))), p...)
	if _, err := f.Conn.Write(b); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Read implements net.Conn. What does not fit into p is an error.
func (f *DatagramStream) Read(p []byte) (int, error) {
	var head [2]byte
	if _, err := io.ReadFull(f.Conn, head[:]); err != nil {
		return 0, err
	}
	n := int(binary.BigEndian.Uint16(head[:]))
	if n > len(p) {
		return 0, fmt.Errorf("a datagram of %d bytes where %d fit", n, len(p))
	}
	return io.ReadFull(f.Conn, p[:n])
}

// Datagrams leads datagrams of another worker's gateway to an instance and back,
// until the stream ends or the instance is gone.
func Datagrams(ctx context.Context, stream, instance net.Conn, t *counters.Bytes) {
	stop := context.AfterFunc(ctx, func() {
		netconn.Cut(stream)
		_ = instance.Close()
	})
	defer stop()
	f := &DatagramStream{Conn: stream}
	var wg sync.WaitGroup
	wg.Go(func() {
		pumpDatagrams(instance, f, &t.Received)
		_ = instance.Close()
	})
	pumpDatagrams(f, instance, &t.Sent)
	_ = stream.Close()
	wg.Wait()
}

func pumpDatagrams(dst, src net.Conn, count interface{ Add(uint64) uint64 }) {
	buf := make([]byte, MaxDatagram)
	for {
		n, err := src.Read(buf)
		if err != nil {
			return
		}
		if _, err := dst.Write(buf[:n]); err != nil {
			return
		}
		count.Add(uint64(n))
	}
}
