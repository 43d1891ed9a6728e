// Package transport sends requests of endpoints to a server and reads its answers. What goes
// wrong on the way is a problem, too, that says what to do about it.
package transport

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

const (
	dialTimeout = 5 * time.Second
	// askTimeout of one request, on top of the time that it asks to wait.
	askTimeout = 30 * time.Second
	// maxAnswerBytes bounds an answer: 100,000 instances with their histories.
	maxAnswerBytes = 256 << 20
	maxNotice      = 1 << 10
)

// Conn is the way to a server. It is safe for concurrent use.
type Conn struct {
	base  string // https://host:port
	host  string // host:port, for errors
	token string
	// Local makes the changes that are asked for ones of the site that is talked to, whether
	// or not its root is connected.
	Local bool
	http  *http.Client
	// transport of http.
	transport *http.Transport
	// Notice, if set before the first request, is told what the server has to say
	// beside an answer: that the context will stop to work, for example. Calls may
	// come at the same time.
	Notice func(text string)
}

// New makes the way to a server (https://host:port). token is a bearer token, "" where the
// certificate of conf says who asks. Nothing is sent yet.
func New(server, token string, conf *tls.Config) (*Conn, error) {
	u, err := url.Parse(server)
	if err != nil {
		return nil, fmt.Errorf("server address: %w", err)
	}
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSHandshakeTimeout:   dialTimeout,
		TLSClientConfig:       conf,
		MaxIdleConnsPerHost:   4,
		IdleConnTimeout:       time.Minute,
		ExpectContinueTimeout: time.Second,
	}
	return &Conn{
		base: "https://" + u.Host, host: u.Host, token: token,
		transport: transport,
		http: &http.Client{
			Transport: transport,
			// A redirect could lead a token to another host.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// Host is the host:port that the client talks to.
func (c *Conn) Host() string { return c.host }

// DialBy has the client open its connections by dial, before the first request:
// from a network that is not this process's, for example.
func (c *Conn) DialBy(dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	t := c.transport
	t.DialContext, t.Proxy = dial, nil
}

// Close drops idle connections.
func (c *Conn) Close() { c.http.CloseIdleConnections() }

// SetTLS changes how the server is trusted and who asks, before the first request.
func (c *Conn) SetTLS(conf *tls.Config) { c.transport.TLSClientConfig = conf }

// ForNode is for a node that shows its own certificate: those who have nothing to ask hold no
// connections. It is called before the first request.
func (c *Conn) ForNode() {
	c.transport.IdleConnTimeout, c.transport.Proxy = 15*time.Second, nil
}

// Call asks for an operation. The server may hold the answer for wait.
func Call[In, Out any](ctx context.Context, c *Conn, e rest.Endpoint[In, Out], in In, wait time.Duration) (out Out,
	err error) {
	r, err := e.Request(in)
	if err != nil {
		return out, err
	}
	if _, local := reflect.TypeFor[In]().FieldByName("Local"); local && c.Local {
		r.Query.Set("local", "true")
	}
	return out, c.do(ctx, r, wait, &out)
}

// do sends a request and decodes the answer into out (nil: ignored).
func (c *Conn) do(ctx context.Context, r rest.Request, wait time.Duration, out any) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout+wait)
	defer cancel()
	req, err := c.request(ctx, r)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return c.transportError(err)
	}
	if text := resp.Header.Get(rest.NoticeHeader); text != "" && c.Notice != nil {
		c.Notice(text[:min(len(text), maxNotice)])
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes+1))
	if cerr := resp.Body.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return c.transportError(err)
	}
	if len(data) > maxAnswerBytes {
		return wire.Problemf(0, "answer-too-large", "ask for less, for example one application (--app)",
			"the answer is too large", "%s sent more than %d MiB", c.host, maxAnswerBytes>>20)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return c.problem(resp, data)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return c.unreadable(err)
	}
	return nil
}

// request makes a request.
func (c *Conn) request(ctx context.Context, r rest.Request) (*http.Request, error) {
	target := c.base + r.Path
	if len(r.Query) > 0 {
		target += "?" + r.Query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, target, bytes.NewReader(r.Body))
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	if r.ContentType != "" {
		req.Header.Set("Content-Type", r.ContentType)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	return req, nil
}

// problem decodes an error of the server.
func (c *Conn) problem(resp *http.Response, data []byte) error {
	media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	var b rest.ProblemBody
	if err == nil && media == rest.ProblemType && json.Unmarshal(data, &b) == nil && b.Title != "" {
		return &wire.Problem{Status: resp.StatusCode, Code: b.Code, Title: b.Title, Detail: b.Detail, Remedy: b.Remedy}
	}
	text := strings.TrimSpace(string(data[:min(len(data), 200)]))
	return wire.Problemf(resp.StatusCode, "unexpected-answer",
		"is it Verge that answers there, of about this version? (verge version)",
		"unexpected answer", "%s: %s %q", c.host, resp.Status, text)
}

// unreadable is the problem of an answer that is none of Verge.
func (c *Conn) unreadable(err error) error {
	return wire.Problemf(0, "unexpected-answer",
		"is it Verge that answers there, of about this version? (verge version)",
		"the answer cannot be read", "%s: %v", c.host, err)
}
