package proxy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

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

// status answers a preamble.
type status byte

const (
	statusOK         status = 0
	statusNoInstance status = 1 // no such instance on this worker
	statusNotReady   status = 2
	statusDraining   status = 3
	statusRefused    status = 4 // the instance did not accept the connection
	statusBad        status = 5 // the preamble is not understood
)

func (s status) String() string {
	switch s {
	case statusOK:
		return "ok"
	case statusNoInstance:
		return "no such instance"
	case statusNotReady:
		return "not ready"
	case statusDraining:
		return "draining"
	case statusRefused:
		return "refused by the instance"
	case statusBad:
		return "preamble not understood"
	}
	return fmt.Sprintf("status %d", byte(s))
}

// statusOf maps an error of Local.Target.
func statusOf(err error) status {
	switch {
	case err == nil:
		return statusOK
	case errors.Is(err, ErrNoInstance):
		return statusNoInstance
	case errors.Is(err, ErrDraining):
		return statusDraining
	}
	return statusNotReady
}

// preamble says which port of which instance a stream is for.
type preamble struct {
	instance wire.InstanceID
	port     string
	probe    bool
	measure  bool
	http     bool
	// datagrams: the port is one for udp.
	datagrams bool
}

var errPreamble = errors.New("malformed preamble")

// encode returns the preamble as one piece, so that it is one TLS record.
func (p preamble) encode() ([]byte, error) {
	if !validName(p.instance) || !validName(p.port) || len(p.instance) > 255 {
		return nil, fmt.Errorf("%w: instance %.80q, port %.80q", errPreamble, p.instance, p.port)
	}
	body := 1 + len(p.instance) + len(p.port)
	if body > maxPreambleBody {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", errPreamble, body, maxPreambleBody)
	}
	b := make([]byte, 0, preambleHead+body)
	b = append(b, preambleMagic...)
	var flags byte
	if p.probe {
		flags |= flagProbe
	}
	if p.measure {
		flags |= flagMeasure
	}
	if p.http {
		flags |= flagHTTP
	}
	if p.datagrams {
		flags |= flagDatagrams
	}
	b = append(b, preambleVersion, flags)
	b = binary.BigEndian.AppendUint16(b, uint16(body))
	b = append(b, byte(len(p.instance)))
	b = append(b, p.instance...)
	return append(b, p.port...), nil
}

// readPreamble reads exactly one preamble and at most 520 bytes.
func readPreamble(r io.Reader) (preamble, error) {
	var buf [preambleHead + maxPreambleBody]byte
	head := buf[:preambleHead]
	if _, err := io.ReadFull(r, head); err != nil {
		return preamble{}, fmt.Errorf("read preamble: %w", err)
	}
	if string(head[:4]) != preambleMagic || head[4] != preambleVersion {
		return preamble{}, fmt.Errorf("%w: magic or version", errPreamble)
	}
	n := int(binary.BigEndian.Uint16(head[6:]))
	if n < 1 || n > maxPreambleBody {
		return preamble{}, fmt.Errorf("%w: length %d", errPreamble, n)
	}
	body := buf[preambleHead : preambleHead+n]
	if _, err := io.ReadFull(r, body); err != nil {
		return preamble{}, fmt.Errorf("read preamble: %w", err)
	}
	id := int(body[0])
	if 1+id > n {
		return preamble{}, fmt.Errorf("%w: instance id longer than the body", errPreamble)
	}
	p := preamble{
		instance:  string(body[1 : 1+id]),
		port:      string(body[1+id:]),
		probe:     head[5]&flagProbe != 0,
		measure:   head[5]&flagMeasure != 0,
		http:      head[5]&flagHTTP != 0,
		datagrams: head[5]&flagDatagrams != 0,
	}
	if !validName(p.instance) || !validName(p.port) {
		return preamble{}, fmt.Errorf("%w: names are not DNS labels", errPreamble)
	}
	return p, nil
}

// validName is true for what DNS labels joined by dots can consist of: these
// strings end up in logs and as keys.
func validName(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-.") == ""
}

// writeAnswer answers a preamble; a reason that is too long is cut.
func writeAnswer(w io.Writer, s status, reason string) error {
	if len(reason) > maxReason {
		reason = reason[:maxReason]
	}
	b := append([]byte{byte(s), byte(len(reason))}, reason...)
	if _, err := w.Write(b); err != nil {
		return fmt.Errorf("answer preamble: %w", err)
	}
	return nil
}

// readAnswer reads exactly one answer.
func readAnswer(r io.Reader) (status, string, error) {
	var buf [2 + maxReason]byte
	if _, err := io.ReadFull(r, buf[:2]); err != nil {
		return 0, "", fmt.Errorf("read the peer's answer: %w", err)
	}
	reason := buf[2 : 2+int(buf[1])]
	if _, err := io.ReadFull(r, reason); err != nil {
		return 0, "", fmt.Errorf("read the peer's answer: %w", err)
	}
	return status(buf[0]), strings.ToValidUTF8(string(reason), "?"), nil
}
