package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// Bounds of the store's use.
const (
	key      = "guestbook"
	maxKept  = 10_000  // entries; older ones go
	maxReply = 1 << 20 // bytes of one value
	maxItems = 1000    // of one list
	maxDepth = 4       // of lists in lists
	maxConns = 16      // at one time
)

// store keeps the entries in a list of a Redis server. It speaks the few words
// of its protocol (RESP2) that a list needs.
type store struct {
	addr string
	// free holds a nil for each connection that may be opened, and the open ones
	// that nobody uses.
	free chan *conn
}

type conn struct {
	net.Conn
	r *bufio.Reader
}

func newStore(addr string) *store {
	s := &store{addr: addr, free: make(chan *conn, maxConns)}
	for range maxConns {
		s.free <- nil
	}
	return s
}

func (s *store) close() {
	for range maxConns {
		if c := <-s.free; c != nil {
			_ = c.Close() // nothing is under way
		}
	}
}

// add implements book.
func (s *store) add(ctx context.Context, e entry) (int, error) {
	value, err := json.Marshal(e)
	if err != nil {
		return 0, fmt.Errorf("encode the entry: %w", err)
	}
	replies, err := s.do(ctx, []string{"LPUSH", key, string(value)}, []string{"LTRIM", key, "0", strconv.Itoa(maxKept - 1)})
	if err != nil {
		return 0, err
	}
	n, ok := replies[0].(int)
	if !ok {
		return 0, fmt.Errorf("LPUSH: unexpected reply %v", replies[0])
	}
	return min(n, maxKept), nil
}

// latest implements book.
func (s *store) latest(ctx context.Context, n int) ([]entry, int, error) {
	replies, err := s.do(ctx, []string{"LRANGE", key, "0", strconv.Itoa(n - 1)}, []string{"LLEN", key})
	if err != nil {
		return nil, 0, err
	}
	items, ok := replies[0].([]any)
	total, ok2 := replies[1].(int)
	if !ok || !ok2 {
		return nil, 0, errors.New("LRANGE, LLEN: unexpected replies")
	}
	entries := make([]entry, 0, len(items))
	for _, i := range items {
		var e entry
		text, _ := i.(string)
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			return nil, 0, fmt.Errorf("an entry of the store cannot be read: %w", err)
		}
		entries = append(entries, e)
	}
	return entries, total, nil
}

// count implements book.
func (s *store) count(ctx context.Context) (int, error) {
	replies, err := s.do(ctx, []string{"LLEN", key})
	if err != nil {
		return 0, err
	}
	n, ok := replies[0].(int)
	if !ok {
		return 0, errors.New("LLEN: unexpected reply")
	}
	return n, nil
}

// do sends commands in one go and returns a reply for each. A kept connection
// that the other side has closed meanwhile is noticed before it is used; what
// breaks later is an error, because an entry must not be added twice.
func (s *store) do(ctx context.Context, commands ...[]string) ([]any, error) {
	var c *conn
	select {
	case c = <-s.free:
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for a connection to the store: %w", ctx.Err())
	}
	defer func() { s.free <- c }()
	if c != nil && c.stale() {
		_ = c.Close() // the other side has closed it already
		c = nil
	}
	if c == nil {
		raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.addr)
		if err != nil {
			return nil, fmt.Errorf("connecting to the store: %w", err)
		}
		c = &conn{Conn: raw, r: bufio.NewReader(raw)}
	}
	replies, err := c.exchange(ctx, commands)
	if err != nil {
		_ = c.Close() // what is left on it belongs to nobody
		c = nil
	}
	return replies, err
}

// stale says whether the other side has closed a connection that is not in use.
func (c *conn) stale() bool {
	if c.r.Buffered() > 0 || c.SetReadDeadline(time.Now().Add(50*time.Microsecond)) != nil {
		return true
	}
	_, err := c.r.Peek(1)
	var ne net.Error
	return !errors.As(err, &ne) || !ne.Timeout()
}

func (c *conn) exchange(ctx context.Context, commands [][]string) ([]any, error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(patient)
	}
	if err := c.SetDeadline(deadline); err != nil {
		return nil, err
	}
	var out []byte
	for _, cmd := range commands {
		out = fmt.Appendf(out, "*%d\r\n", len(cmd))
		for _, arg := range cmd {
			out = fmt.Appendf(out, "$%d\r\n%s\r\n", len(arg), arg)
		}
	}
	if _, err := c.Write(out); err != nil {
		return nil, fmt.Errorf("asking the store: %w", err)
	}
	replies := make([]any, len(commands))
	for i := range commands {
		v, err := readReply(c.r, maxDepth)
		if err != nil {
			return nil, fmt.Errorf("answer of the store: %w", err)
		}
		if refused, ok := v.(error); ok {
			return nil, fmt.Errorf("the store refuses %s: %w", commands[i][0], refused)
		}
		replies[i] = v
	}
	return replies, nil
}

// readReply reads one value: a string, int, nil, []any, or an error that the
// server sent.
func readReply(r *bufio.Reader, depth int) (any, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return nil, errors.New("not a line of the protocol")
	}
	kind, text := line[0], string(line[1:len(line)-2])
	switch kind {
	case '+':
		return text, nil
	case '-':
		return errors.New(text), nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return nil, fmt.Errorf("not a number: %q", text)
	}
	switch {
	case kind == ':':
		return n, nil
	case n == -1 && (kind == '$' || kind == '*'):
		return nil, nil // the protocol's own nil
	case kind == '$' && n >= 0 && n <= maxReply:
		b := make([]byte, n+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		return string(b[:n]), nil
	case kind == '*' && n >= 0 && n <= maxItems && depth > 0:
		list := make([]any, n)
		for i := range list {
			if list[i], err = readReply(r, depth-1); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	return nil, fmt.Errorf("unexpected or too large: %c%s", kind, text)
}
