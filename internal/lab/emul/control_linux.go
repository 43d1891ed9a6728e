package emul

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"
)

// request to a switch, one JSON value a line.
type request struct {
	Set []Set `json:"set,omitempty"`
	// Sites replace those that are; nil leaves them.
	Sites *[]Site `json:"sites,omitempty"`
	Stats bool    `json:"stats,omitempty"`
}

type reply struct {
	Error string `json:"error,omitempty"`
	Stats *Stats `json:"stats,omitempty"`
}

// maxRequest bounds a line of the control socket: all links of a full lab.
const maxRequest = 256 << 20

// Serve runs a switch by the configuration in a file until ctx ends, and takes
// orders at a socket of the file system. It listens when the devices are up.
func Serve(ctx context.Context, config, socket string) error {
	b, err := os.ReadFile(config)
	if err != nil {
		return fmt.Errorf("read the switch's configuration: %w", err)
	}
	var c Config
	if err := json.Unmarshal(b, &c); err != nil {
		return fmt.Errorf("the switch's configuration %s: %w", config, err)
	}
	s, err := Open(c)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the socket of an earlier switch: %w", err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("control socket: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	var served sync.WaitGroup
	defer served.Wait()
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	served.Go(func() { s.accept(ctx, l, &served) })
	return s.Run(ctx)
}

func (s *Switch) accept(ctx context.Context, l net.Listener, served *sync.WaitGroup) {
	for {
		c, err := l.Accept()
		if err != nil {
			return // it was closed
		}
		served.Go(func() {
			defer func() { _ = c.Close() }() // nothing is lost by it
			defer context.AfterFunc(ctx, func() { _ = c.Close() })()
			in := bufio.NewScanner(c)
			in.Buffer(nil, maxRequest)
			for in.Scan() {
				var r request
				var out reply
				err := json.Unmarshal(in.Bytes(), &r)
				if err == nil && len(r.Set) > 0 {
					err = s.Set(r.Set)
				}
				if err == nil && r.Sites != nil {
					err = s.SetSites(*r.Sites)
				}
				if err == nil && r.Stats {
					var st Stats
					st, err = s.Stats()
					out.Stats = &st
				}
				if err != nil {
					out = reply{Error: err.Error()}
				}
				if json.NewEncoder(c).Encode(out) != nil {
					return
				}
			}
		})
	}
}

// Control talks to a switch at its socket.
type Control struct{ Socket string }

// timeout of a request to the switch.
const timeout = 10 * time.Second

func (c Control) ask(r request) (out reply, err error) {
	conn, err := net.DialTimeout("unix", c.Socket, timeout)
	if err != nil {
		return out, fmt.Errorf("the lab's switch does not answer: %w", err)
	}
	defer func() { _ = conn.Close() }() // nothing is lost by it
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return out, err
	}
	if err := json.NewEncoder(conn).Encode(r); err != nil {
		return out, fmt.Errorf("ask the lab's switch: %w", err)
	}
	if err := json.NewDecoder(conn).Decode(&out); err != nil {
		return out, fmt.Errorf("answer of the lab's switch: %w", err)
	}
	if out.Error != "" {
		return out, errors.New(out.Error)
	}
	return out, nil
}

// Set changes directions of links.
func (c Control) Set(links []Set) error {
	_, err := c.ask(request{Set: links})
	return err
}

// SetSites replaces all sites.
func (c Control) SetSites(sites []Site) error {
	_, err := c.ask(request{Sites: &sites})
	return err
}

// Stats of the switch.
func (c Control) Stats() (Stats, error) {
	out, err := c.ask(request{Stats: true})
	if err == nil && out.Stats == nil {
		err = errors.New("the lab's switch gave no statistics")
	}
	if err != nil {
		return Stats{}, err
	}
	return *out.Stats, nil
}
