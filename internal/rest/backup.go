package rest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/wire"
)

// Backups is the part of a Backend that copies all that the role is.
type Backups interface {
	// Backup writes an archive (package backup) of this moment into w, with the contents
	// of objects or without. It holds the role's keys.
	Backup(ctx context.Context, w io.Writer, objects bool) error
}

const (
	backupPath = "/v1/backup"
	backupType = "application/x-verge-backup"
	// backupStall is how long one part of a backup may take to be sent.
	backupStall = 30 * time.Second
)

// registerBackup adds the one operation whose answer is as large as the store: it
// is sent while it is made. It is a POST so that it is logged as what it is.
func (s *Server) registerBackup() {
	s.handle("POST "+backupPath, may(access.Manage, system), s.backup)
}

// backupSubject is what the audit log says that a backup is of.
type backupSubject struct{}

func (backupSubject) subject() (on, detail string) { return "system/backup", "with all keys" }

func (s *Server) backup(w http.ResponseWriter, r *http.Request) {
	// Before anything leaves: what could not be recorded is not given out.
	if err := s.begin(r.Context(), need{id: "take-backup"}, question{in: backupSubject{}}); err != nil {
		p := asProblem(err)
		writeProblem(w, &wire.Problem{Status: p.Status, Code: p.Code, Title: p.Title, Detail: p.Detail, Remedy: p.Remedy})
		return
	}
	objects := false // who does not ask for them may not know how to read them
	if v := r.URL.Query().Get("objects"); v != "" {
		var err error
		if objects, err = strconv.ParseBool(v); err != nil {
			writeProblem(w, wire.Problemf(http.StatusBadRequest, "bad-query", "write objects=true or objects=false", "the request cannot be understood", "objects=%.20q", v))
			return
		}
	}
	out := &steady{w: w, c: http.NewResponseController(w)}
	w.Header().Set("Content-Type", backupType)
	// As long as it moves it may take: what bounds a request is meant for answers
	// that fit into memory.
	err := s.backend.Backup(context.WithoutCancel(r.Context()), out, objects)
	if err == nil {
		return
	}
	s.log.Error("a backup could not be made", "error", err)
	if !out.begun {
		w.Header().Del("Content-Type")
		p := asProblem(err)
		writeProblem(w, &wire.Problem{Status: p.Status, Code: p.Code, Title: p.Title, Detail: p.Detail, Remedy: p.Remedy})
	}
	// Else it ends too early, and whoever reads it sees that.
}

// steady moves the deadline of a connection on with each part that is sent.
type steady struct {
	w     io.Writer
	c     *http.ResponseController
	begun bool
}

func (s *steady) Write(p []byte) (int, error) {
	s.begun = true
	// Not supported by test recorders, and there not needed.
	_ = s.c.SetWriteDeadline(time.Now().Add(backupStall))
	return s.w.Write(p)
}

// Backup returns an archive of what the server is at this moment, which the caller
// must close; see Backups.
func (c *Client) Backup(ctx context.Context, objects bool) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
	// A server that falls silent must not hold up the next backup.
	body := &awaited{cancel: cancel, stall: time.AfterFunc(2*backupStall, cancel)}
	req, err := c.request(ctx, call{method: http.MethodPost, path: backupPath + "?objects=" + strconv.FormatBool(objects)})
	if err != nil {
		return nil, errors.Join(err, body.Close())
	}
	resp, err := c.http.Do(req) //nolint:bodyclose // the caller closes it, with what surrounds it
	if err != nil {
		return nil, errors.Join(c.transportError(err), body.Close())
	}
	body.ReadCloser = resp.Body
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != backupType {
		data, err := io.ReadAll(io.LimitReader(resp.Body, maxProblemBytes))
		if cerr := body.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return nil, c.transportError(err)
		}
		return nil, c.problem(resp, data)
	}
	return body, nil
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
	a.stall.Reset(2 * backupStall)
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

// maxProblemBytes bounds what is read of an error.
const maxProblemBytes = 64 << 10
