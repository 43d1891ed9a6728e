package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// StartExec runs a program beside an instance; see Looking.
func (c *Client) StartExec(ctx context.Context, id wire.InstanceID, start wire.ExecStart) (session string, err error) {
	var v sessionView
	err = c.send(ctx, http.MethodPost, "/v1/instances/"+url.PathEscape(id)+"/exec", start, &v)
	return v.Session, err
}

// StartForward begins a session that carries connections to ports of an instance.
func (c *Client) StartForward(ctx context.Context, id wire.InstanceID, start wire.ForwardStart) (session string, err error) {
	var v sessionView
	err = c.send(ctx, http.MethodPost, "/v1/instances/"+url.PathEscape(id)+"/forward", start, &v)
	return v.Session, err
}

// StartCopy begins a session that carries a file or directory from or to an instance.
func (c *Client) StartCopy(ctx context.Context, id wire.InstanceID, start wire.CopyStart) (session string, err error) {
	var v sessionView
	err = c.send(ctx, http.MethodPost, "/v1/instances/"+url.PathEscape(id)+"/copy", start, &v)
	return v.Session, err
}

// Invoke sends a request to the service of an instance; see Looking.
func (c *Client) Invoke(ctx context.Context, id wire.InstanceID, in wire.Invocation) (out wire.Invoked, err error) {
	body, err := json.Marshal(in)
	if err != nil {
		return out, fmt.Errorf("encode the request: %w", err)
	}
	err = c.do(ctx, call{method: http.MethodPost, path: "/v1/instances/" + url.PathEscape(id) + "/invoke", body: body, contentType: "application/json",
		wait: time.Duration(in.Hold()) * time.Millisecond}, &out)
	return out, err
}

// SendExec gives a session's program input; see wire.ExecInput.
func (c *Client) SendExec(ctx context.Context, session string, in wire.ExecInput) (taken int64, err error) {
	var v takenView
	err = c.send(ctx, http.MethodPost, execPath(session)+"/input", in, &v)
	return v.Taken, err
}

// execLate is how much longer than asked for an answer may take: somebody sits
// there, and asking again costs nothing.
const execLate = 10 * time.Second

// ReadExec reads what a session's program has written; see wire.ExecOffset. wait
// is at most 30s.
func (c *Client) ReadExec(ctx context.Context, session string, stdout, stderr int64, wait time.Duration) (wire.ExecOutput, error) {
	ctx, cancel := context.WithTimeout(ctx, wait+execLate)
	defer cancel()
	q := url.Values{"stdout": {strconv.FormatInt(stdout, 10)}, "stderr": {strconv.FormatInt(stderr, 10)}, "wait": {wait.String()}}
	return get[wire.ExecOutput](ctx, c, call{path: execPath(session) + "/output", query: q, wait: wait})
}

// EndExec ends a session with its program.
func (c *Client) EndExec(ctx context.Context, session string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: execPath(session)}, nil)
}

func execPath(session string) string { return "/v1/exec/" + url.PathEscape(session) }
