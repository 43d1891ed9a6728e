package health

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/runtime"
)

// Bounds of what is read of a probe's answer.
const (
	maxBody = 64 << 10
	// maxOutput of a command is kept; more is read and dropped up to maxDrained, and then blocks
	// it.
	maxOutput  = 4 << 10
	maxDrained = 1 << 20
	// maxShown bytes of a command's output and maxSaid of an HTTP body go into a reason.
	maxShown = 256
	maxSaid  = 100
	// MaxCommands run at a time, so that slow checks do not slow down the worker.
	MaxCommands = 8
)

// Prober probes local ports. probe returns nil if the check passed.
type Prober interface {
	Probe(ctx context.Context, c Check) error
}

// ProbeCommand runs the command of a check beside a task; nil if it passed. The error does not
// show the values in Hidden.
func ProbeCommand(ctx context.Context, task runtime.Task, c *Check, env []string) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	said := make(chan []byte, 1)
	go func() {
		out, _ := io.ReadAll(io.LimitReader(r, maxOutput)) // what there was must do
		_, _ = io.CopyN(io.Discard, r, maxDrained)
		said <- out
	}()
	exit, err := task.Exec(ctx, runtime.Exec{Command: c.Command, Env: env, Stdout: w, Stderr: w})
	_ = w.Close() // nothing of ours was written
	// Processes that still hold the pipe open are not waited for.
	_ = r.SetReadDeadline(time.Now().Add(lastWords))
	out := redact(<-said, c.Hidden)
	_ = r.Close() // read only
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no exit within %s%s", c.Timeout, ending(out))
	case err != nil:
		return err
	case exit.Signal != "":
		return fmt.Errorf("killed by signal %s%s", exit.Signal, ending(out))
	case exit.Code != 0:
		return fmt.Errorf("exit code %d%s", exit.Code, ending(out))
	}
	return nil
}

// lastWords is how long output is read after the command has ended.
const lastWords = 100 * time.Millisecond

// ending quotes the end of a command's output for a reason: the last line most often says why it
// failed.
func ending(out []byte) string {
	words := oneLine(out)
	if cut := len(words) - maxShown; cut > 0 {
		words = "… " + strings.ToValidUTF8(words[cut:], "")
	}
	return quoted(words)
}

// beginning quotes the beginning of a body for a reason.
func beginning(body []byte) string {
	words := oneLine(body)
	if len(words) > maxSaid {
		words = strings.ToValidUTF8(words[:maxSaid], "") + " …"
	}
	return quoted(words)
}

func quoted(words string) string {
	if words == "" {
		return ""
	}
	return ` "` + words + `"`
}

// oneLine makes text of an instance one line without control characters.
func oneLine(text []byte) string {
	return strings.Join(strings.FieldsFunc(strings.ToValidUTF8(string(text), ""), func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " ")
}

// netProber probes over the network.
type netProber struct {
	dialer net.Dialer
	client *http.Client
}

// NewNetProber is a prober that opens connections, one for each probe.
func NewNetProber() *netProber {
	return &netProber{client: &http.Client{
		// A kept connection would count as one more in the instance, and hide that it accepts no
		// new ones.
		Transport:     &http.Transport{DisableKeepAlives: true, Proxy: nil, MaxResponseHeaderBytes: maxBody},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Probe makes one check.
func (p *netProber) Probe(ctx context.Context, c Check) error {
	addr := net.JoinHostPort(cmp.Or(c.host, "127.0.0.1"), strconv.Itoa(c.port))
	if c.Path == "" {
		conn, err := p.dialer.DialContext(ctx, "tcp", addr)
		if err != nil {
			return unanswered(err, &c)
		}
		return conn.Close()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+c.Path, nil)
	if err != nil {
		return err
	}
	req.Host = cmp.Or(bracketed(c.host), "127.0.0.1")
	req.Header.Set("User-Agent", "verge-probe")
	resp, err := p.client.Do(req)
	if err != nil {
		var out *url.Error
		if errors.As(err, &out) {
			err = out.Err // without the URL, which names the address
		}
		return fmt.Errorf("port %d: %w", c.port, unanswered(err, &c))
	}
	defer resp.Body.Close() //nolint:errcheck // read only
	if resp.StatusCode >= 200 && resp.StatusCode <= 399 {
		// A server whose answer is cut off says so in its log, at every probe.
		_, _ = io.CopyN(io.Discard, resp.Body, maxBody) // where it ends does not matter
		return nil
	}
	var said []byte
	if !c.Mute {
		said, _ = io.ReadAll(io.LimitReader(resp.Body, maxOutput)) // what came must do
	}
	return fmt.Errorf("%d%s", resp.StatusCode, beginning(redact(said, c.Hidden)))
}

// unanswered is the error of a probe that got no answer.
func unanswered(err error, c *Check) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("no answer within %s", c.Timeout)
	}
	return state.WithoutAddress(err)
}

// bracketed is a host as it stands in a URL.
func bracketed(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

// redact takes the values of secrets out of a text.
func redact(text []byte, hidden [][]byte) []byte {
	for _, value := range hidden {
		if len(value) > 0 {
			text = bytes.ReplaceAll(text, value, []byte("[secret]"))
		}
	}
	return text
}
