package relay

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// pipe serves both ends of one. Who asks waits here until the other has come.
func (s *Server) pipe(conn net.Conn, m *member, r request) {
	// The time for the request is over before that for the other end is.
	if conn.SetDeadline(time.Now().Add(2*pipeTimeout)) != nil {
		return
	}
	if r.Op == opTake {
		s.take(conn, m, r.Pipe)
		return
	}
	name, p, err := s.offer(m, id{r.Cluster, r.Worker}, r.Number)
	if err != nil {
		refuse(conn, err)
		return
	}
	defer func() {
		s.mu.Lock()
		delete(s.pipes, name)
		s.mu.Unlock()
	}()
	timeout := time.NewTimer(pipeTimeout)
	defer timeout.Stop()
	select {
	case other := <-p.other:
		s.join(conn, other)
	case <-timeout.C:
		refuse(conn, fmt.Errorf("worker %.63s of cluster %.63s does not come: it may be away, or keeps no tunnel "+
			"with this relay", r.Worker, r.Cluster))
	case <-s.ctx.Done():
	}
}

func refuse(conn net.Conn, err error) {
	_ = writeMessage(conn, Answer{V: version, Error: err.Error()})
	_ = conn.Close()
}

// offer notes a pipe and tells the other worker.
func (s *Server) offer(m *member, to id, number uint32) (string, *pipe, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	other := s.find(to, number)
	switch {
	case other == nil:
		return "", nil, fmt.Errorf("worker %.63s of cluster %.63s is not known here", to.worker, to.cluster)
	case len(s.pipes) >= maxPipes:
		return "", nil, errors.New("too many workers are waiting for each other")
	}
	p := &pipe{to: other.id, other: make(chan net.Conn)}
	name := rand.Text()
	s.pipes[name] = p
	s.tell(other, Mail{Cluster: m.id.cluster, Worker: m.id.worker, Number: m.number, Key: keyText(m.key), Pipe: name})
	return name, p, nil
}

// take hands the connection to who waits for it, and returns when both are done:
// the caller closes it then.
func (s *Server) take(conn net.Conn, m *member, name string) {
	s.mu.Lock()
	p := s.pipes[name]
	if p != nil && p.to == m.id {
		delete(s.pipes, name)
	} else {
		p = nil
	}
	s.mu.Unlock()
	if p == nil {
		refuse(conn, errors.New("nobody waits for this connection"))
		return
	}
	end := &taken{Conn: conn, done: make(chan struct{})}
	timeout := time.NewTimer(pipeTimeout)
	defer timeout.Stop()
	select {
	case p.other <- end:
		<-end.done
	case <-timeout.C:
		refuse(conn, errors.New("who asked is gone"))
	case <-s.ctx.Done():
	}
}

// taken is a connection whose server waits until the pipe has ended.
type taken struct {
	net.Conn
	done chan struct{}
}

// join copies between two ends until one is done. Both are told first that the
// other is there.
func (s *Server) join(a, b net.Conn) {
	if t, ok := b.(*taken); ok {
		defer close(t.done)
	}
	defer func() { _ = b.Close() }()
	defer func() { _ = a.Close() }()
	end := time.Now().Add(pipeLife)
	for _, c := range []net.Conn{a, b} {
		if c.SetDeadline(end) != nil || writeMessage(c, Answer{V: version}) != nil {
			return
		}
	}
	over := make(chan struct{}, 2)
	cp := func(to, from net.Conn) {
		// An exchange is small; who sends more uses the wrong way.
		_, _ = io.Copy(to, io.LimitReader(from, 4*maxMessage+(64<<10)))
		over <- struct{}{}
	}
	s.wg.Go(func() { cp(a, b) })
	s.wg.Go(func() { cp(b, a) })
	<-over
	_ = a.SetDeadline(time.Unix(1, 0))
	_ = b.SetDeadline(time.Unix(1, 0))
	<-over
}
