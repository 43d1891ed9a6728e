package rest

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

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

// Client talks to a Server. It is safe for concurrent use.
type Client struct {
	base  string // https://host:port
	host  string // host:port, for errors
	token string
	local bool // see MeanLocal
	http  *http.Client
	// transport of http.
	transport *http.Transport
	// Notice, if set before the first request, is told what the server has to say
	// beside an answer: that the context will stop to work, for example. Calls may
	// come at the same time.
	Notice func(text string)
}

// NewClient makes a client of a context. Nothing is sent yet.
func NewClient(e ContextEntry) (*Client, error) {
	conf, err := e.tlsConfig()
	if err != nil {
		return nil, err
	}
	c, err := newClient(e.Server, conf)
	if err != nil {
		return nil, err
	}
	c.token = e.Token
	return c, nil
}

func newClient(server string, conf *tls.Config) (*Client, error) {
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
	return &Client{
		base: "https://" + u.Host, host: u.Host,
		transport: transport,
		http: &http.Client{
			Transport: transport,
			// A redirect could lead a token to another host.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// tlsConfig is how a client of this context trusts and shows itself.
func (e ContextEntry) tlsConfig() (*tls.Config, error) {
	const remedy = "take a new context file from the root, or choose another: verge context list"
	if err := e.validate(); err != nil {
		return nil, wire.Problemf(0, "bad-context", remedy, "the context cannot be used", "%s: %v", e.Name, err)
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS13, ServerName: e.ServerName}
	if e.CA != "" {
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM([]byte(e.CA)) {
			return nil, wire.Problemf(0, "bad-context", remedy, "the context cannot be used", "%s: ca holds no certificate in PEM", e.Name)
		}
	}
	if e.Cert != "" {
		pair, err := tls.X509KeyPair([]byte(e.Cert), []byte(e.Key))
		if err != nil {
			return nil, wire.Problemf(0, "bad-context", remedy, "the context cannot be used", "%s: cert and key: %v", e.Name, err)
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	return conf, nil
}

// Host is the host:port that the client talks to.
func (c *Client) Host() string { return c.host }

// DialBy has the client open its connections by dial, before the first request:
// from a network that is not this process's, for example.
func (c *Client) DialBy(dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	t := c.transport
	t.DialContext, t.Proxy = dial, nil
}

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// call is one request.
type call struct {
	method, path string
	query        url.Values
	body         []byte
	contentType  string
	wait         time.Duration // that the server may hold it
}

// do sends a request and decodes the answer into out (nil: ignored).
func (c *Client) do(ctx context.Context, r call, out any) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout+r.wait)
	defer cancel()
	req, err := c.request(ctx, r)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return c.transportError(err)
	}
	if text := resp.Header.Get(noticeHeader); text != "" && c.Notice != nil {
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
		return wire.Problemf(0, "unexpected-answer", "is it Verge that answers there, of about this version? (verge version)",
			"the answer cannot be read", "%s: %v", c.host, err)
	}
	return nil
}

// request makes the request of a call.
func (c *Client) request(ctx context.Context, r call) (*http.Request, error) {
	target := c.base + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, bytes.NewReader(r.body))
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	if r.contentType != "" {
		req.Header.Set("Content-Type", r.contentType)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	return req, nil
}

// problem decodes an error of the server.
func (c *Client) problem(resp *http.Response, data []byte) error {
	media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	var b problemBody
	if err == nil && media == problemType && json.Unmarshal(data, &b) == nil && b.Title != "" {
		return &wire.Problem{Status: resp.StatusCode, Code: b.Code, Title: b.Title, Detail: b.Detail, Remedy: b.Remedy}
	}
	text := strings.TrimSpace(string(data[:min(len(data), 200)]))
	return wire.Problemf(resp.StatusCode, "unexpected-answer", "is it Verge that answers there, of about this version? (verge version)",
		"unexpected answer", "%s: %s %q", c.host, resp.Status, text)
}

// JoinAt sends a join request to the first of addrs (host:port) that answers.
// tlsConf pins who may answer. A server that refuses the token ends it; one
// that cannot be reached, is overloaded or is not the place for it does not.
// The errors of all addresses are joined.
func JoinAt(ctx context.Context, addrs []string, tlsConf *tls.Config, req wire.JoinRequest) (wire.JoinReply, error) {
	body, err := json.Marshal(req)
	if err != nil {
		return wire.JoinReply{}, fmt.Errorf("join: encode the request: %w", err)
	}
	return firstOf(ctx, "join", addrs, tlsConf, func(c *Client) (reply wire.JoinReply, err error) {
		err = c.do(ctx, call{method: http.MethodPost, path: "/v1/join", body: body, contentType: "application/json"}, &reply)
		return reply, err
	})
}
