package frames

import (
	"bytes"
	"encoding/binary"
	"errors"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	// MaxUnwritten bytes of bodies wait to be written.
	MaxUnwritten = 128 << 10
	// MaxControl bytes of everything do: a peer that asks for answers (PING, SETTINGS) and reads none
	// has its connection cut.
	MaxControl = 1 << 20
	// MaxWindow is the largest that a window may be (RFC 9113, 6.9.1).
	MaxWindow = 1<<31 - 1
	// DefaultWindow holds until somebody says otherwise (RFC 9113, 6.5.2).
	DefaultWindow = 65535
	// DefaultFrame is the size of a frame until somebody says otherwise.
	DefaultFrame = 16 << 10
	// TableSize of the compression of heads.
	TableSize = 4096

	// largest frame that is written, whatever the peer takes.
	largest = 64 << 10
	// large: a buffer that has become larger is kept only while it is filled.
	large = 16 << 10
)

// ErrStuck says that too much waits to be written.
var ErrStuck = errors.New("the peer reads nothing and asks for more and more answers")

// Writer collects what one end has to say.
type Writer struct {
	*http2.Framer // writes to memory, so none of its writes fails
	// MaxFrame is what the peer takes.
	MaxFrame int

	heads *hpack.Encoder
	block bytes.Buffer // where heads writes
	out   []byte
	kick  chan struct{}
}

// New returns a Writer for a peer with the defaults.
func New() *Writer {
	w := &Writer{MaxFrame: DefaultFrame, kick: make(chan struct{}, 1)}
	w.Framer = http2.NewFramer((*output)(w), nil)
	w.heads = hpack.NewEncoder(&w.block)
	return w
}

// output is what the Framer writes to.
type output Writer

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.out = append(o.out, p...)
	return len(p), nil
}

// Raw has bytes written that are no frame.
func (w *Writer) Raw(text string) { w.out = append(w.out, text...) }

// Flush has what was collected written.
func (w *Writer) Flush() { Signal(w.kick) }

// Pending has a value when there is something to write.
func (w *Writer) Pending() <-chan struct{} { return w.kick }

// Take returns what is to be written, and goes on with a buffer that was.
func (w *Writer) Take(written []byte) (buf []byte) {
	buf, w.out = w.out, written[:0]
	return buf
}

// Reusable is a buffer that was written, or nil if it is too large to be used again.
func Reusable(buf []byte) []byte {
	if cap(buf) > large && len(buf) < large || cap(buf) > MaxControl {
		return nil
	}
	return buf
}

// Full says whether bodies have to wait.
func (w *Writer) Full() bool { return len(w.out) >= MaxUnwritten }

// Bounded is ErrStuck if too much waits to be written.
func (w *Writer) Bounded() error {
	if len(w.out) > MaxControl {
		return ErrStuck
	}
	return nil
}

// Data writes a part of a body: what the Framer does, without a copy more.
func (w *Writer) Data(id uint32, end bool, p []byte) {
	n, flags := len(p), http2.Flags(0)
	if end {
		flags = http2.FlagDataEndStream
	}
	w.out = append(w.out, byte(n>>16), byte(n>>8), byte(n), byte(http2.FrameData), byte(flags))
	w.out = binary.BigEndian.AppendUint32(w.out, id)
	w.out = append(w.out, p...)
}

// Head begins with the fields of a head.
func (w *Writer) Head() { w.block.Reset() }

// Field adds a field to the head; alone: not to the table of what was sent before.
func (w *Writer) Field(name, value string, alone bool) {
	_ = w.heads.WriteField(hpack.HeaderField{Name: name, Value: value, Sensitive: alone}) // to memory
}

// Headers writes the fields since Head.
func (w *Writer) Headers(id uint32, end bool) {
	b := w.block.Bytes()
	n := min(len(b), w.MaxFrame)
	_ = w.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: b[:n], EndStream: end,
		EndHeaders: n == len(b)}) // to memory
	for b = b[n:]; len(b) > 0; b = b[n:] {
		n = min(len(b), w.MaxFrame)
		_ = w.WriteContinuation(id, n == len(b), b[:n]) // to memory
	}
}

// Settings takes those of the peer and acknowledges them; each is called with every one.
func (w *Writer) Settings(f *http2.SettingsFrame, each func(http2.Setting) error) error {
	if f.NumSettings() > 100 || f.HasDuplicates() && f.NumSettings() > 10 {
		return http2.ConnectionError(http2.ErrCodeEnhanceYourCalm)
	}
	err := f.ForeachSetting(func(s http2.Setting) error {
		if err := s.Valid(); err != nil {
			return err
		}
		switch s.ID {
		case http2.SettingMaxFrameSize:
			w.MaxFrame = min(int(s.Val), largest)
		case http2.SettingHeaderTableSize:
			w.heads.SetMaxDynamicTableSizeLimit(min(s.Val, TableSize))
			w.heads.SetMaxDynamicTableSize(min(s.Val, TableSize))
		}
		return each(s)
	})
	if err != nil {
		return err
	}
	_ = w.WriteSettingsAck() // to memory
	w.Flush()
	return nil
}

// Signal wakes who waits at ch, which has room for one.
func Signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
