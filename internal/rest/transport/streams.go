package transport

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

const (
	// stall is how long a server may be silent in a stream: twice as long as one part may
	// take it.
	stall = 60 * time.Second
	// maxProblemBytes bounds what is read of an error.
	maxProblemBytes = 64 << 10
)

// open sends a request whose answer is a stream, to be closed. set adds to the request.
func (c *Conn) open(ctx context.Context, r rest.Request, set func(*http.Request),
	good func(*http.Response) bool) (*http.Response, error) {
	ctx, cancel := context.WithCancel(ctx)
	// A server that falls silent must not hold up the next request.
	body := &awaited{cancel: cancel, stall: time.AfterFunc(stall, cancel)}
	req, err := c.request(ctx, r)
	if err != nil {
		return nil, errors.Join(err, body.Close())
	}
	set(req)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, errors.Join(c.transportError(err), body.Close())
	}
	body.ReadCloser, resp.Body = resp.Body, body
	if good(resp) {
		return resp, nil
	}
	return nil, c.refusal(resp)
}

// refusal reads the problem that an answer is, and closes it.
func (c *Conn) refusal(resp *http.Response) error {
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxProblemBytes))
	if cerr := resp.Body.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return c.transportError(err)
	}
	return c.problem(resp, data)
}

// awaited is an answer whose parts must come within a time.
type awaited struct {
	io.ReadCloser // nil before there is one
	cancel        context.CancelFunc
	stall         *time.Timer
}

// Read implements io.Reader.
func (a *awaited) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	a.stall.Reset(stall)
	return n, err
}

// Close implements io.Closer.
func (a *awaited) Close() error {
	a.stall.Stop()
	defer a.cancel()
	if a.ReadCloser == nil {
		return nil
	}
	return a.ReadCloser.Close()
}

// Backup is an archive of what the server is at this moment, to be closed; see rest.Backups.
func (c *Conn) Backup(ctx context.Context, objects bool) (io.ReadCloser, error) {
	r := rest.Request{Method: http.MethodPost, Path: rest.TakeBackup.Path + "?objects=" + strconv.FormatBool(objects)}
	resp, err := c.open(ctx, r, func(*http.Request) {}, func(resp *http.Response) bool {
		return resp.StatusCode == http.StatusOK && resp.Header.Get("Content-Type") == rest.BackupType
	})
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// Figures reads the page of metrics of the serving tier, or of one of its workers where that
// is not "", at most as many bytes as are asked for.
func (c *Conn) Figures(ctx context.Context, cluster, worker string, most int64) ([]byte, error) {
	path := rest.Figures.Path
	if worker != "" {
		path = rest.WorkerFigures.PathOf(cluster, worker)
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	resp, err := c.open(ctx, rest.Request{Method: http.MethodGet, Path: path},
		func(r *http.Request) { r.Header.Set("Accept", "text/plain") },
		func(resp *http.Response) bool { return resp.StatusCode == http.StatusOK })
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	if cerr := resp.Body.Close(); err == nil {
		err = cerr
	}
	switch {
	case err != nil:
		return nil, c.transportError(err)
	case int64(len(data)) > most:
		return nil, wire.Problemf(0, "answer-too-large", "ask it yourself: "+path, "the page is too large",
			"%s has more than %d bytes", path, most)
	}
	return data, nil
}

// Object is an object and its content.
type Object struct {
	View apiv1.ObjectView
	// Same: it is the one that the question named; there is no body then.
	Same bool
	// Body is to be closed. Reading it ends with an error if the object did not come
	// as a whole.
	Body io.ReadCloser
}

// GetObject asks for an object. have is a digest (SHA-256, hexadecimal) of which the
// content is not needed, "" for none.
func (c *Conn) GetObject(ctx context.Context, namespace, name, have string) (Object, error) {
	if err := wire.CheckObjectName(name); err != nil {
		return Object{}, err
	}
	resp, err := c.open(ctx, rest.Request{Method: http.MethodGet, Path: rest.GetObject.PathOf(namespace, name)},
		func(r *http.Request) {
			r.Header.Del("Accept")
			if have != "" {
				r.Header.Set("If-None-Match", wire.ETag(have))
			}
		}, func(resp *http.Response) bool {
			return resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusNotModified
		})
	if err != nil {
		return Object{}, err
	}
	out := Object{Same: resp.StatusCode == http.StatusNotModified, Body: resp.Body}
	if err := json.Unmarshal([]byte(resp.Header.Get(rest.ObjectHeader)), &out.View); err != nil {
		return Object{}, errors.Join(c.unreadable(err), resp.Body.Close())
	}
	if out.Same {
		out.Body = nil
		return out, resp.Body.Close()
	}
	return out, nil
}

// PutObject stores an object; see rest.Objects.
func (c *Conn) PutObject(ctx context.Context, in rest.ObjectUpload) (v apiv1.ObjectView, err error) {
	if err := wire.CheckObjectName(in.Name); err != nil {
		return v, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(stall, cancel)
	defer silence.Stop()
	req, err := c.request(ctx,
		rest.Request{Method: http.MethodPut, Path: rest.PutObject.PathOf(in.Namespace, in.Name), ContentType: in.Type})
	if err != nil {
		return v, err
	}
	req.Body, req.ContentLength = &moving{ReadCloser: io.NopCloser(in.Body), stall: silence}, in.Size
	if in.Size == 0 {
		req.Body = http.NoBody
	}
	if raw, err := hex.DecodeString(in.Digest); err == nil && in.Digest != "" {
		req.Header.Set(rest.DigestHeader, "sha-256=:"+base64.StdEncoding.EncodeToString(raw)+":")
	}
	// What will be refused is not sent.
	req.Header.Set("Expect", "100-continue")
	resp, err := c.http.Do(req)
	if err != nil {
		return v, c.transportError(err)
	}
	if resp.StatusCode != http.StatusOK {
		return v, c.refusal(resp)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxProblemBytes))
	if cerr := resp.Body.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return v, c.transportError(err)
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return v, c.unreadable(err)
	}
	return v, nil
}

// moving is a body of which parts must be taken within a time.
type moving struct {
	io.ReadCloser
	stall *time.Timer
}

// Read implements io.Reader.
func (m *moving) Read(p []byte) (int, error) {
	m.stall.Reset(stall)
	return m.ReadCloser.Read(p)
}

// RemoveObject removes an object; see rest.Objects.
func (c *Conn) RemoveObject(ctx context.Context, namespace, name string) (v apiv1.ObjectView, err error) {
	if err := wire.CheckObjectName(name); err != nil {
		return v, err
	}
	err = c.do(ctx, rest.Request{Method: http.MethodDelete, Path: rest.DeleteObject.PathOf(namespace, name)}, 0, &v)
	return v, err
}

// Post sends what nodes send in JSON, and decodes the answer into out.
func (c *Conn) Post(ctx context.Context, o *rest.Operation, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encode the request: %w", err)
	}
	return c.do(ctx, rest.Request{Method: o.Method, Path: o.Path, Body: body, ContentType: "application/json"}, 0, out)
}
