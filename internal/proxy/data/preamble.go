package data

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/verge-edge/verge/internal/proxy/local"
	"github.com/verge-edge/verge/internal/wire"
)

// The head of a stream between two workers. The opener sends
//
//	"VRGD"  version(1)  flags(1)  length(2, big endian)  body
//
// with body = length of the instance id (1), instance id, port name. The answer
// is
//
//	status(1)  length(1)  reason
//
// and, after statusOK, the bytes of the connection. Nothing but the preamble is
// sent before the answer, so whatever is not statusOK can be tried elsewhere.
const (
	preambleMagic   = "VRGD"
	preambleVersion = 1
	preambleHead    = len(preambleMagic) + 4
	maxPreambleBody = 512
	maxReason       = 255

	// flagProbe asks only whether a connection would succeed now.
	flagProbe = 1 << 0
	// flagMeasure asks for nobody's instance but for echoes, see echo. A router that
	// is too old for it says that there is no such instance, which is an answer too.
	flagMeasure = 1 << 1
	// flagHTTP says that requests come, which the other router is to look at one by
	// one. A router that is too old for it gives the bytes to the instance, which
	// takes them as well.
	flagHTTP = 1 << 2
	// flagDatagrams asks for a udp port; what follows are datagrams, see framed. A
	// router that is too old for it connects by TCP, which the instance refuses.
	flagDatagrams = 1 << 3
)

// Status answers a preamble.
type Status byte

// Answers to a preamble.
const (
	StatusOK         Status = 0
	StatusNoInstance Status = 1 // no such instance on this worker
	StatusNotReady   Status = 2
	StatusDraining   Status = 3
	StatusRefused    Status = 4 // the instance did not accept the connection
	StatusBad        Status = 5 // the preamble is not understood
)

// String is what a log says.
func (s Status) String() string {
	switch s {
	case StatusOK:
		return "ok"
	case StatusNoInstance:
		return "no such instance"
	case StatusNotReady:
		return "not ready"
	case StatusDraining:
		return "draining"
	case StatusRefused:
		return "refused by the instance"
	case StatusBad:
		return "preamble not understood"
	}
	return fmt.Sprintf("status %d", byte(s))
}

// statusOf maps an error of Local.Target.
func statusOf(err error) Status {
	switch {
	case err == nil:
		return StatusOK
	case errors.Is(err, local.ErrNoInstance):
		return StatusNoInstance
	case errors.Is(err, local.ErrDraining):
		return StatusDraining
	}
	return StatusNotReady
}

// Preamble says which port of which instance a stream is for.
type Preamble struct {
	Instance wire.InstanceID
	Port     string
	Probe    bool
	measure  bool
	HTTP     bool
	// Datagrams: the port is one for udp.
	Datagrams bool
}

var errPreamble = errors.New("malformed preamble")

// Encode returns the preamble as one piece, so that it is one TLS record.
func (p Preamble) Encode() ([]byte, error) {
	if !validName(p.Instance) || !validName(p.Port) || len(p.Instance) > 255 {
		return nil, fmt.Errorf("%w: instance %.80q, port %.80q", errPreamble, p.Instance, p.Port)
	}
	body := 1 + len(p.Instance) + len(p.Port)
	if body > maxPreambleBody {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", errPreamble, body, maxPreambleBody)
	}
	b := make([]byte, 0, preambleHead+body)
	b = append(b, preambleMagic...)
	var flags byte
	if p.Probe {
		flags |= flagProbe
	}
	if p.measure {
		flags |= flagMeasure
	}
	if p.HTTP {
		flags |= flagHTTP
	}
	if p.Datagrams {
		flags |= flagDatagrams
	}
	b = append(b, preambleVersion, flags)
	b = binary.BigEndian.AppendUint16(b, uint16(body))
	b = append(b, byte(len(p.Instance)))
	b = append(b, p.Instance...)
	return append(b, p.Port...), nil
}

// readPreamble reads exactly one preamble and at most 520 bytes.
func readPreamble(r io.Reader) (Preamble, error) {
	var buf [preambleHead + maxPreambleBody]byte
	head := buf[:preambleHead]
	if _, err := io.ReadFull(r, head); err != nil {
		return Preamble{}, fmt.Errorf("read preamble: %w", err)
	}
	if string(head[:4]) != preambleMagic || head[4] != preambleVersion {
		return Preamble{}, fmt.Errorf("%w: magic or version", errPreamble)
	}
	n := int(binary.BigEndian.Uint16(head[6:]))
	if n < 1 || n > maxPreambleBody {
		return Preamble{}, fmt.Errorf("%w: length %d", errPreamble, n)
	}
	body := buf[preambleHead : preambleHead+n]
	if _, err := io.ReadFull(r, body); err != nil {
		return Preamble{}, fmt.Errorf("read preamble: %w", err)
	}
	id := int(body[0])
	if 1+id > n {
		return Preamble{}, fmt.Errorf("%w: instance id longer than the body", errPreamble)
	}
	p := Preamble{
		Instance:  string(body[1 : 1+id]),
		Port:      string(body[1+id:]),
		Probe:     head[5]&flagProbe != 0,
		measure:   head[5]&flagMeasure != 0,
		HTTP:      head[5]&flagHTTP != 0,
		Datagrams: head[5]&flagDatagrams != 0,
	}
	if !validName(p.Instance) || !validName(p.Port) {
		return Preamble{}, fmt.Errorf("%w: names are not DNS labels", errPreamble)
	}
	return p, nil
}

// validName is true for what DNS labels joined by dots can consist of: these
// strings end up in logs and as keys.
func validName(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-.") == ""
}

// writeAnswer answers a preamble; a reason that is too long is cut.
func writeAnswer(w io.Writer, s Status, reason string) error {
	if len(reason) > maxReason {
		reason = reason[:maxReason]
	}
	b := append([]byte{byte(s), byte(len(reason))}, reason...)
	if _, err := w.Write(b); err != nil {
		return fmt.Errorf("answer preamble: %w", err)
	}
	return nil
}

// ReadAnswer reads exactly one answer.
func ReadAnswer(r io.Reader) (Status, string, error) {
	var buf [2 + maxReason]byte
	if _, err := io.ReadFull(r, buf[:2]); err != nil {
		return 0, "", fmt.Errorf("read the peer's answer: %w", err)
	}
	reason := buf[2 : 2+int(buf[1])]
	if _, err := io.ReadFull(r, reason); err != nil {
		return 0, "", fmt.Errorf("read the peer's answer: %w", err)
	}
	return Status(buf[0]), strings.ToValidUTF8(string(reason), "?"), nil
}
