package plugin

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/tlsconf"
)

const (
	maxToken = 4 << 10  // bytes of the file
	maxCA    = 64 << 10 // bytes of the file
	// dialTimeout bounds a connection that nobody refuses.
	dialTimeout = 5 * time.Second
	idleTimeout = time.Minute
	maxIdle     = 4
)

// Config is a plugin as the operator of a cluster registers it.
type Config struct {
	Name string
	// URL is https://host/path; http:// for a loopback address only; unix:/path of
	// a socket; OnBus where it is no URL that is asked.
	URL string
	// TokenFile has the bearer token that the plugin wants; "" is none. CAFile has
	// the authorities (PEM) that it is trusted by; "" are the machine's.
	TokenFile, CAFile string
	// Joint: one question has all services that wait.
	Joint bool
}

// HTTP is a plugin behind HTTP. It is safe for concurrent use.
type HTTP struct {
	url, token string
	client     *http.Client
	transport  *http.Transport
}

// NewHTTP prepares to ask a plugin. It reads the files that c names but connects
// to nothing.
func NewHTTP(c Config) (*HTTP, error) {
	h := &HTTP{token: c.TokenFile}
	d := &net.Dialer{Timeout: dialTimeout}
	h.transport = &http.Transport{
		MaxIdleConns: maxIdle, MaxIdleConnsPerHost: maxIdle, IdleConnTimeout: idleTimeout,
		DisableCompression: true, MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true,
		TLSClientConfig: tlsconf.Public(), DialContext: d.DialContext,
	}
	u, err := CheckURL(c.URL)
	if err != nil {
		return nil, err
	}
	switch u.Scheme {
	case "unix":
		h.url = "http://plugin/"
		h.transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn,
			error) {
			return d.DialContext(ctx, "unix", u.Path)
		}
	case "http":
		h.url = u.String()
		d.Control = onLoopback
	default:
		h.url = u.String()
	}
	if c.CAFile != "" {
		pem, err := atomicfile.ReadBounded(c.CAFile, maxCA)
		if err != nil {
			return nil, fmt.Errorf("authorities of plugin %s: %w", c.Name, err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("authorities of plugin %s: %s has no certificate in PEM", c.Name, c.CAFile)
		}
		h.transport.TLSClientConfig.RootCAs = pool
	}
	if _, err := h.bearer(); err != nil {
		return nil, fmt.Errorf("token of plugin %s: %w", c.Name, err)
	}
	// A redirection would take the token elsewhere.
	h.client = &http.Client{Transport: h.transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return h, nil
}

// OnBus is the URL of a plugin that is asked over the bus of its cluster, which it has
// joined.
const OnBus = "nats:"

// CheckURL says whether a plugin may be asked at s.
func CheckURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		return nil, errors.New("it is not a URL: write nats:, https://host/path, http://127.0.0.1:port/path " +
			"or unix:/path")
	}
	ip := net.ParseIP(u.Hostname())
	switch {
	case s == OnBus:
		return u, nil
	case u.User != nil:
		return nil, errors.New("it has a user in it: put the token into a file, which --plugin-token-file names")
	case u.Fragment != "" || u.RawQuery != "" && u.Scheme == "unix":
		return nil, errors.New("it has a part that means nothing here: write nats:, https://host/path, " +
			"http://127.0.0.1:port/path or unix:/path")
	case u.Scheme == "unix" && u.Host == "" && filepath.IsAbs(u.Path):
		return u, nil
	case u.Scheme == "https" && u.Hostname() != "":
		return u, nil
	case u.Scheme == "http" && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()):
		return u, nil
	case u.Scheme == "http":
		return nil, errors.New("http is for plugins on this machine: write https, or an address of the loopback")
	}
	return nil, errors.New("it must be nats:, https://host/path, http://127.0.0.1:port/path or unix:/path")
}

// onLoopback refuses a connection that would leave the machine: a name may be
// resolved to anything.
func onLoopback(_, address string, _ syscall.RawConn) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return fmt.Errorf("%s is not on this machine", address)
	}
	return nil
}

// bearer is the token, "" if there is none.
func (h *HTTP) bearer() (string, error) {
	if h.token == "" {
		return "", nil
	}
	data, err := atomicfile.ReadBounded(h.token, maxToken)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(data))
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("%s does not hold one line of printable characters", h.token)
	}
	return token, nil
}

// Ask sends a question and returns the verdicts. Every error is an *Error.
func (h *HTTP) Ask(ctx context.Context, q Question) (map[string]Verdict, error) {
	body, err := Encode(q, MaxQuestion)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url, bytes.NewReader(body))
	if err != nil {
		return nil, errorf(Invalid, "making the request: %v", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "verge")
	switch token, err := h.bearer(); {
	case err != nil:
		return nil, errorf(Unreachable, "its token cannot be read: %v", err)
	case token != "":
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := h.client.Do(req)
	if err != nil {
		return nil, failed(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }() // nothing more is read of it
	if resp.StatusCode != http.StatusOK {
		return nil, errorf(Refused, "it answered with status %d", resp.StatusCode)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, MaxAnswer+1))
	if err != nil {
		return nil, failed(ctx, err)
	}
	return Decode(q, data)
}

// failed gives an error of a connection its class.
func failed(ctx context.Context, err error) *Error {
	if ctx.Err() != nil {
		return errorf(Late, "it did not answer in time")
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // without the URL, which people know
	}
	return errorf(Unreachable, "it cannot be reached: %s", cut(err.Error()))
}

// Close ends idle connections.
func (h *HTTP) Close() { h.transport.CloseIdleConnections() }
