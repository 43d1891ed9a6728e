package relay

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"github.com/verge-edge/verge/internal/wire"
)

const (
	// alpn keeps the port from being mistaken for another TLS port of Verge.
	alpn = "verge-relay/1"
	// maxMessage in bytes, of a request and of an answer.
	maxMessage = 16 << 10
	version    = 1
	// WakePort is the UDP port of a worker's inner address to which "ask for your
	// mail" is sent.
	WakePort = 8478
	// wakeText is the whole message; what else arrives means nothing.
	wakeText = "verge: ask for your mail"
	// helloText is what a worker sends through the tunnel to keep its NAT open and to
	// see that the relay is there, hereText the answer.
	helloText = "verge: are you there"
	hereText  = "verge: here"
)

// What a worker can ask for.
const (
	opMail    = "mail"    // nothing but to be known, and what there is for it
	opPipe    = "pipe"    // a stream to another worker
	opTake    = "take"    // the other end of one
	opChannel = "channel" // a port that leads to another worker
	opPause   = "pause"   // the port is not needed for now
)

// request is what a worker sends, after the handshake.
type request struct {
	V     int              `json:"v"`
	Op    string           `json:"op"`
	Lease wire.SignedLease `json:"lease"`
	// Key is the worker's public WireGuard key, in base64.
	Key string `json:"key"`
	// Inner is the worker's own address in the service network, within its lease.
	Inner netip.Addr `json:"inner"`
	// Cluster and Worker are the other one's, Number that of its lease, by which it is
	// known under all its names; 0 by those that do not say.
	Cluster string `json:"cluster,omitempty"`
	Worker  string `json:"worker,omitempty"`
	Number  uint32 `json:"number,omitempty"`
	// Pipe that is taken.
	Pipe string `json:"pipe,omitempty"`
}

// Answer is what a relay says to any request.
type Answer struct {
	V int `json:"v"`
	// Error says why the request was refused; "" if it was not.
	Error string `json:"error,omitempty"`
	// Key is the relay's public WireGuard key, in base64, Port its UDP port and Inner
	// its address within the tunnel.
	Key   string     `json:"key,omitempty"`
	Port  uint16     `json:"port,omitempty"`
	Inner netip.Addr `json:"inner,omitzero"`
	// Outside is where the relay sees the worker's WireGuard; zero: not yet.
	Outside netip.AddrPort `json:"outside,omitzero"`
	// Channel is the port of the relay that leads to the other worker.
	Channel uint16 `json:"channel,omitempty"`
	// Mail is what others want.
	Mail []Mail `json:"mail,omitempty"`
}

// Mail is what another worker wants.
type Mail struct {
	Cluster string `json:"cluster"`
	Worker  string `json:"worker"`
	// Number of its lease; 0 by relays that do not say.
	Number uint32 `json:"number,omitempty"`
	// Key is the other's public WireGuard key, in base64.
	Key string `json:"key"`
	// Pipe to take; "" if there is none.
	Pipe string `json:"pipe,omitempty"`
	// Channel is the port of the relay that leads to the other; 0: none.
	Channel uint16 `json:"channel,omitempty"`
}

var errMessage = errors.New("malformed message")

func writeMessage(w io.Writer, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	if len(body) > maxMessage {
		return fmt.Errorf("%w: %d bytes, at most %d", errMessage, len(body), maxMessage)
	}
	if _, err := w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}

func readMessage(r io.Reader, v any) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return fmt.Errorf("receive: %w", err)
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxMessage {
		return fmt.Errorf("%w: %d bytes, at most %d", errMessage, n, maxMessage)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return fmt.Errorf("receive: %w", err)
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("%w: %w", errMessage, err)
	}
	return nil
}

// IsWake says whether a datagram at WakePort is a relay's.
func IsWake(b []byte) bool { return string(b) == wakeText }

// Hello is the datagram that a worker sends to WakePort of the relay's inner
// address.
func Hello() []byte { return []byte(helloText) }
