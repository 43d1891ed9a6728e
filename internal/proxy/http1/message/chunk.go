package message

import "bytes"

// Chunks follows the framing of a chunked body, which is passed on as it is. It is
// as strict as one can be: sizes in at most 15 hexadecimal digits, lines ended with
// CRLF, no control characters in extensions and trailers, all within bounds.
type Chunks struct {
	state chunkState
	left  int64 // of the chunk's data
	line  int   // bytes of the line, or of all trailers
	some  bool  // the trailer's line is not empty; a size has a digit
	// Quiet: load reports in trailers are dropped. Then Next stops at trailers and sets Fields:
	// Step takes them, and WithoutReports what they become.
	Quiet, Fields bool
}

type chunkState uint8

const (
	chunkSize chunkState = iota
	chunkExtension
	chunkSizeLF
	chunkData
	chunkDataCR
	chunkDataLF
	trailer
	trailerLF
	chunksDone
)

// Bounds of what is not data.
const (
	maxChunkLine = 4 << 10
	maxTrailers  = 16 << 10
)

// ErrChunks is the error of a response with malformed chunks.
var ErrChunks = Malformed("its chunks are malformed")

// Next returns how much of b belongs to the body; less than all of it only where
// the body is done, or there are fields.
func (c *Chunks) Next(b []byte) (n int, err error) {
	for n < len(b) && !c.Done() {
		if c.Fields = c.Fields || c.Quiet && c.state == trailer && b[n] != '\r'; c.Fields {
			return n, nil
		}
		if c.state == chunkData {
			k := min(c.left, int64(len(b)-n))
			n += int(k)
			if c.left -= k; c.left == 0 {
				c.state = chunkDataCR
			}
			continue
		}
		if !c.Step(b[n]) {
			return n, ErrChunks
		}
		n++
	}
	return n, nil
}

// Done says whether the body has ended.
func (c *Chunks) Done() bool { return c.state == chunksDone }

// InTrailer says whether the next byte belongs to a line of trailers.
func (c *Chunks) InTrailer() bool { return c.state == trailer }

// Step takes a byte that is no data; false: it may not come here.
func (c *Chunks) Step(b byte) bool {
	c.line++
	switch c.state {
	case chunkSize:
		d, ok := hexValue(b)
		switch {
		case ok && c.left < 1<<56:
			c.left, c.some = c.left<<4|int64(d), true
			return c.line <= 15
		case ok || !c.some:
			return false
		case b == '\r':
			c.state = chunkSizeLF
		case b == ';' || b == ' ' || b == '\t':
			c.state = chunkExtension
		default:
			return false
		}
		return true
	case chunkExtension:
		if b == '\r' {
			c.state = chunkSizeLF
			return true
		}
		return text[b] && c.line <= maxChunkLine
	case chunkSizeLF:
		c.state, c.line, c.some = chunkData, 0, false
		if c.left == 0 {
			c.state = trailer
		}
		return b == '\n'
	case chunkDataCR:
		c.state = chunkDataLF
		return b == '\r'
	case chunkDataLF:
		c.state, c.line, c.some = chunkSize, 0, false
		return b == '\n'
	case trailer:
		if b == '\r' {
			c.state = trailerLF
			return true
		}
		first := !c.some
		c.some = true
		if first && !token[b] {
			return false // neither a name nor the end
		}
		return text[b] && c.line <= maxTrailers
	case trailerLF:
		c.state = trailer
		if !c.some {
			c.state = chunksDone
		}
		c.some = false
		return b == '\n'
	case chunkData, chunksDone:
	}
	return false
}

// WithoutReports are whole lines of trailers without those that are load reports.
func WithoutReports(lines []byte) []byte {
	kept := lines[:0]
	for len(lines) > 0 {
		end := bytes.IndexByte(lines, '\n') + 1
		if end == 0 {
			end = len(lines)
		}
		name, _, _ := bytes.Cut(lines[:end], []byte(":"))
		if kindOf(bytes.TrimRight(name, " \t")) != loadReport {
			kept = append(kept, lines[:end]...)
		}
		lines = lines[end:]
	}
	return kept
}

func hexValue(b byte) (byte, bool) {
	switch {
	case '0' <= b && b <= '9':
		return b - '0', true
	case 'a' <= b|0x20 && b|0x20 <= 'f':
		return b | 0x20 - 'a' + 10, true
	}
	return 0, false
}
