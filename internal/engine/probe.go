package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/verge-edge/verge/internal/runtime"
)

// Bounds of what is read of a probe's answer.
const (
	maxBody = 64 << 10
	// maxOutput of a command is looked at; what it writes beyond is read and
	// dropped, up to maxDrained, and then holds it up.
	maxOutput  = 4 << 10
	maxDrained = 1 << 20
	// maxShown of its output stands in a reason.
	maxShown = 256
	// maxCommands run at a time, so that a worker full of slow ones does not
	// become slow by its checks.
	maxCommands = 8
)

// prober probes local ports. probe returns nil if the check passed.
type prober interface {
	probe(ctx context.Context, c check) error
}

// commandCheck runs the command of a check beside a task; nil if it passed. The
// values in hidden do not show in the error.
func commandCheck(ctx context.Context, task runtime.Task, c *check, env []string, hidden [][]byte) error {
	name := c.command[0]
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("command %s: %w", name, err)
	}
	said := make(chan []byte, 1)
	go func() {
		out, _ := io.ReadAll(io.LimitReader(r, maxOutput)) // what there was must do
		_, _ = io.CopyN(io.Discard, r, maxDrained)
		said <- out
	}()
	exit, err := task.Exec(ctx, runtime.Exec{Command: c.command, Env: env, Stdout: w, Stderr: w})
	_ = w.Close() // nothing of ours was written
	// Whoever might still have the pipe open is not waited for.
	_ = r.SetReadDeadline(time.Now().Add(lastWords))
	out := hide(<-said, hidden)
	_ = r.Close() // read only
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("command %s: not over within %s%s", name, c.timeout, shown(out))
	case err != nil:
		return fmt.Errorf("command %s: %w", name, err)
	case exit.Signal != "":
		return fmt.Errorf("command %s: killed by signal %s%s", name, exit.Signal, shown(out))
	case exit.Code != 0:
		return fmt.Errorf("command %s: exit code %d%s", name, exit.Code, shown(out))
	}
	return nil
}

// lastWords is how long output is read after its command has ended, with all that
// it had started.
const lastWords = 100 * time.Millisecond

// shown is what a reason says of a command's output: its end, on one line.
func shown(out []byte) string {
	words := strings.Join(strings.FieldsFunc(strings.ToValidUTF8(string(out), ""), func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " ")
	if words == "" {
		return ""
	}
	if cut := len(words) - maxShown; cut > 0 {
		words = "… " + strings.ToValidUTF8(words[cut:], "")
	}
	return ": " + words
}

// netProber probes for real.
type netProber struct {
	dialer net.Dialer
	client *http.Client
}

func newNetProber() *netProber {
	return &netProber{client: &http.Client{
		// A connection that is kept would count as one more in the instance, and
		// hide that it does not accept new ones.
		Transport:     &http.Transport{DisableKeepAlives: true, Proxy: nil, MaxResponseHeaderBytes: maxBody},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// probe makes one check.
func (p *netProber) probe(ctx context.Context, c check) error {
	addr := net.JoinHostPort(cmp.Or(c.host, "127.0.0.1"), strconv.Itoa(c.port))
	if c.path == "" {
		conn, err := p.dialer.DialContext(ctx, "tcp", addr)
		if err != nil {
			return fmt.Errorf("connect to port %d: %w", c.port, plain(err))
		}
		return conn.Close()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+c.path, nil)
	if err != nil {
		return fmt.Errorf("path %q: %w", c.path, err)
	}
	req.Host = cmp.Or(bracketed(c.host), "127.0.0.1")
	req.Header.Set("User-Agent", "verge-probe")
	resp, err := p.client.Do(req)
	if err != nil {
		return fmt.Errorf("GET %s on port %d: %w", c.path, c.port, plain(err))
	}
	_, _ = io.CopyN(io.Discard, resp.Body, maxBody) // politeness only, its end does not matter
	_ = resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 399 {
		return fmt.Errorf("GET %s on port %d: status %d", c.path, c.port, resp.StatusCode)
	}
	return nil
}

// bracketed is a host as it stands in a URL.
func bracketed(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

// plain strips the addresses off a network error: the message names the port.
func plain(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}
