package main

import (
	"bufio"
	"errors"
	"net"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestReadReply(t *testing.T) {
	for in, want := range map[string]any{
		"+OK\r\n": "OK", ":42\r\n": 42, "$5\r\na\r\nbc\r\n": "a\r\nbc", "$-1\r\n": nil, "$0\r\n\r\n": "",
		"*2\r\n$1\r\na\r\n:1\r\n": []any{"a", 1}, "*0\r\n": []any{},
	} {
		got, err := readReply(bufio.NewReader(strings.NewReader(in)), maxDepth)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %#v, %v", in, got, err)
		}
	}
	if v, err := readReply(bufio.NewReader(strings.NewReader("-ERR no\r\n")), maxDepth); err != nil || v.(error).Error() != "ERR no" {
		t.Errorf("error reply: %v, %v", v, err)
	}
	for _, in := range []string{
		"", "\r\n", "+OK\n", "$x\r\n", "$-2\r\n", "$99999999\r\n", "*99999999\r\n", "$5\r\nab", "?1\r\n",
		strings.Repeat("*1\r\n", maxDepth+1) + ":1\r\n", "+" + strings.Repeat("x", 5000) + "\r\n",
	} {
		if v, err := readReply(bufio.NewReader(strings.NewReader(in)), maxDepth); err == nil {
			t.Errorf("%.20q was read as %v", in, v)
		}
	}
}

// server answers the four commands, on any number of connections.
type server struct {
	net.Listener
	mu    sync.Mutex
	list  []string
	conns []net.Conn
}

func serverFor(t *testing.T) *server {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{Listener: l}
	var wg sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		s.hangUp()
		wg.Wait()
	})
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, c)
			s.mu.Unlock()
			wg.Go(func() { s.answer(c) })
		}
	})
	return s
}

// hangUp closes all connections, as a restarted server has.
func (s *server) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		_ = c.Close()
	}
	s.conns = nil
}

func (s *server) answer(c net.Conn) {
	r := bufio.NewReader(c)
	for {
		v, err := readReply(r, maxDepth) // a command has the form of a reply
		cmd, _ := v.([]any)
		if err != nil || len(cmd) < 2 {
			return
		}
		s.mu.Lock()
		reply := "-ERR unknown command\r\n"
		switch cmd[0] {
		case "LPUSH":
			s.list = append([]string{cmd[2].(string)}, s.list...)
			reply = ":" + strconv.Itoa(len(s.list)) + "\r\n"
		case "LTRIM":
			reply = "+OK\r\n"
		case "LLEN":
			reply = ":" + strconv.Itoa(len(s.list)) + "\r\n"
		case "LRANGE":
			reply = "*" + strconv.Itoa(len(s.list)) + "\r\n"
			for _, e := range s.list {
				reply += "$" + strconv.Itoa(len(e)) + "\r\n" + e + "\r\n"
			}
		}
		s.mu.Unlock()
		if _, err := c.Write([]byte(reply)); err != nil {
			return
		}
	}
}

func TestStore(t *testing.T) {
	srv := serverFor(t)
	s := newStore(srv.Addr().String())
	defer s.close()
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			if _, err := s.add(t.Context(), entry{Name: "n", Text: strconv.Itoa(i)}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	entries, total, err := s.latest(t.Context(), onPage)
	if err != nil || total != 100 || len(entries) != 100 {
		t.Fatalf("%d of %d entries, %v", len(entries), total, err)
	}
	srv.mu.Lock()
	conns := len(srv.conns)
	srv.mu.Unlock()
	if conns > maxConns {
		t.Errorf("%d connections", conns)
	}
}

func TestStoreConnectsAgain(t *testing.T) {
	srv := serverFor(t)
	s := newStore(srv.Addr().String())
	defer s.close()
	if _, err := s.add(t.Context(), entry{}); err != nil {
		t.Fatal(err)
	}
	srv.hangUp()
	deadline := time.Now().Add(5 * time.Second)
	for { // until the news of the end has arrived
		_, total, err := s.latest(t.Context(), onPage)
		if err == nil && total == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("still %d entries: %v", total, err)
		}
	}
	if _, err := s.do(t.Context(), []string{"PING", "x"}); err == nil || !strings.Contains(err.Error(), "unknown command") {
		t.Errorf("refusal: %v", err)
	}
	_ = srv.Close()
	srv.hangUp()
	var ne net.Error
	for {
		_, err := s.add(t.Context(), entry{})
		if errors.As(err, &ne) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("no error from a server that is gone: %v", err)
		}
	}
}
