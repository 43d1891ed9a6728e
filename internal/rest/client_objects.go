package rest

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// NodeClient makes a client for a node that shows its own certificate, which conf
// has, to the server at addr (host:port).
func NodeClient(addr string, conf *tls.Config) (*Client, error) {
	c, err := newClient("https://"+addr, conf)
	if err == nil {
		// Those who have nothing to ask hold no connections.
		c.transport.IdleConnTimeout, c.transport.Proxy = 15*time.Second, nil
	}
	return c, err
}

// ObjectContent is an object and its content.
type ObjectContent struct {
	View wire.ObjectView
	// Same: it is the one that the question named; there is no body then.
	Same bool
	// Body is to be closed. Reading it ends with an error if the object did not come
	// as a whole.
	Body io.ReadCloser
}

// GetObject asks for an object. have is a digest (SHA-256, hexadecimal) of which the
// content is not needed, "" for none.
func (c *Client) GetObject(ctx context.Context, namespace, name, have string) (ObjectContent, error) {
	if err := wire.CheckObjectName(name); err != nil {
		return ObjectContent{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	body := &awaited{cancel: cancel, stall: time.AfterFunc(2*objectStall, cancel)}
	req, err := c.request(ctx, call{method: http.MethodGet, path: objectPath(namespace, name)})
	if err != nil {
		return ObjectContent{}, errors.Join(err, body.Close())
	}
	req.Header.Del("Accept")
	if have != "" {
		req.Header.Set("If-None-Match", wire.ETag(have))
	}
	resp, err := c.http.Do(req) //nolint:bodyclose // the caller closes it, with what surrounds it
	if err != nil {
		return ObjectContent{}, errors.Join(c.transportError(err), body.Close())
	}
	body.ReadCloser = resp.Body
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusNotModified {
		data, err := io.ReadAll(io.LimitReader(resp.Body, maxProblemBytes))
		if cerr := body.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return ObjectContent{}, c.transportError(err)
		}
		return ObjectContent{}, c.problem(resp, data)
	}
	out := ObjectContent{Same: resp.StatusCode == http.StatusNotModified, Body: body}
	if err := json.Unmarshal([]byte(resp.Header.Get(ObjectHeader)), &out.View); err != nil {
		return ObjectContent{}, errors.Join(wire.Problemf(0, "unexpected-answer", "is it Verge that answers there, of about this version? (verge version)",
			"the answer cannot be read", "%s: %v", c.host, err), body.Close())
	}
	if out.Same {
		out.Body = nil
		return out, body.Close()
	}
	return out, nil
}

// PutObject stores an object; see Shelves.
func (c *Client) PutObject(ctx context.Context, in ObjectUpload) (v wire.ObjectView, err error) {
	if err := wire.CheckObjectName(in.Name); err != nil {
		return v, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stall := time.AfterFunc(2*objectStall, cancel)
	defer stall.Stop()
	req, err := c.request(ctx, call{method: http.MethodPut, path: objectPath(in.Namespace, in.Name), contentType: in.Type})
	if err != nil {
		return v, err
	}
	req.Body, req.ContentLength = &moving{ReadCloser: io.NopCloser(in.Body), stall: stall}, in.Size
	if in.Size == 0 {
		req.Body = http.NoBody
	}
	if raw, err := hex.DecodeString(in.Digest); err == nil && in.Digest != "" {
		req.Header.Set(digestHeader, "sha-256=:"+base64.StdEncoding.EncodeToString(raw)+":")
	}
	// What will be refused is not sent.
	req.Header.Set("Expect", "100-continue")
	resp, err := c.http.Do(req)
	if err != nil {
		return v, c.transportError(err)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxProblemBytes))
	if cerr := resp.Body.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return v, c.transportError(err)
	}
	if resp.StatusCode != http.StatusOK {
		return v, c.problem(resp, data)
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return v, wire.Problemf(0, "unexpected-answer", "is it Verge that answers there, of about this version? (verge version)", "the answer cannot be read", "%s: %v", c.host, err)
	}
	return v, nil
}

// moving is a body of which parts must be taken within a time.
type moving struct {
	io.ReadCloser
	stall *time.Timer
}

func (m *moving) Read(p []byte) (int, error) {
	m.stall.Reset(2 * objectStall)
	return m.ReadCloser.Read(p)
}

// RemoveObject removes an object; see Shelves.
func (c *Client) RemoveObject(ctx context.Context, namespace, name string) (v wire.ObjectView, err error) {
	if err := wire.CheckObjectName(name); err != nil {
		return v, err
	}
	err = c.do(ctx, call{method: http.MethodDelete, path: objectPath(namespace, name)}, &v)
	return v, err
}

// Objects that are at the server; see Shelves.
func (c *Client) Objects(ctx context.Context, namespace string) ([]wire.ObjectView, error) {
	q := url.Values{}
	if namespace != "" {
		q.Set("namespace", namespace)
	}
	return getList[wire.ObjectView](ctx, c, strings.TrimSuffix(wire.ObjectsPath, "/"), q)
}
