package rest

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/ranges"
	"github.com/verge-edge/verge/internal/wire"
)

// Shelves is the part of a Backend that is about objects.
type Shelves interface {
	// GetObject returns an object and its content, to be closed.
	GetObject(ctx context.Context, namespace, name string) (wire.ObjectView, io.ReadSeekCloser, error)
	// PutObject stores an object; durable when it returns, and nothing has changed
	// unless it returns nil.
	PutObject(ctx context.Context, in ObjectUpload) (wire.ObjectView, error)
	// RemoveObject returns what was removed.
	RemoveObject(ctx context.Context, namespace, name string) (wire.ObjectView, error)
	// Objects that are here, of a namespace, of all where it is "".
	Objects(ctx context.Context, namespace string) ([]wire.ObjectView, error)
}

// ObjectUpload is an object that is to be put.
type ObjectUpload struct {
	Namespace, Name, Type string
	// Size is -1 where nobody says; Digest (SHA-256, hexadecimal) is "" there.
	Size   int64
	Digest string
	Body   io.Reader
}

const (
	objectPattern = wire.ObjectsPath + "{namespace}/{name...}"
	// ObjectHeader has the wire.ObjectView of an object beside its content.
	ObjectHeader = "Verge-Object"
	digestHeader = "Content-Digest"
	// objectStall is how long a part of an object may take.
	objectStall = 30 * time.Second
	// maxTransfers of objects go on at a time.
	maxTransfers = 64
)

type objectsInput struct {
	Namespace string `query:"namespace" maxLength:"63" doc:"only of this namespace"`
}

func (s *Server) registerObjects(api huma.API) {
	register(s, api, op("list-objects", http.MethodGet, strings.TrimSuffix(wire.ObjectsPath, "/"), "List the objects that are here", part(readableObjects)),
		func(ctx context.Context, in *objectsInput) (items[wire.ObjectView], error) {
			return list(s.backend.Objects(ctx, in.Namespace))
		})
}

// registerObjectContent adds what moves content: it is sent while it is read, as
// long as that takes.
func (s *Server) registerObjectContent() {
	// GET is HEAD too. A worker that puts what its instances made must not fill the
	// audit log: what people put and remove is recorded by the handlers.
	s.handle("GET "+objectPattern, may(access.Fetch, namespace("namespace")).forNodes(), s.transfer(s.getObject))
	s.handle("PUT "+objectPattern, may(access.Store, namespace("namespace")).silent().forNodes(), s.transfer(s.putObject))
	s.handle("DELETE "+objectPattern, may(access.Store, namespace("namespace")).silent().forNodes(), s.transfer(s.removeObject))
}

func readableObjects(s *Server, who access.Who, out items[wire.ObjectView]) items[wire.ObjectView] {
	kept := []wire.ObjectView{}
	for _, v := range out.Items {
		if access.May(who, access.Fetch, s.here(access.Object{Kind: access.Namespace, Name: v.Namespace, Namespace: v.Namespace})) == nil {
			kept = append(kept, v)
		}
	}
	out.Items = kept
	return out
}

// transfer bounds how many move content at a time.
func (s *Server) transfer(h func(w http.ResponseWriter, r *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case s.transfers <- struct{}{}:
			defer func() { <-s.transfers }()
		default:
			tooMany(w)
			return
		}
		c := http.NewResponseController(w)
		// As long as it moves it may take: each part moves the deadlines on. Test
		// recorders have none.
		_ = errors.Join(c.SetReadDeadline(time.Time{}), c.SetWriteDeadline(time.Now().Add(objectStall)))
		if err := h(&steadyResponse{ResponseWriter: w, c: c}, r); err != nil {
			objectProblem(w, err)
		}
	}
}

func tooMany(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	writeProblem(w, wire.Problemf(http.StatusServiceUnavailable, "busy", "try again in a moment", "too many objects are being moved", "%d at a time", maxTransfers))
}

func objectProblem(w http.ResponseWriter, err error) {
	p := asProblem(err)
	if p.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	for _, h := range []string{ObjectHeader, "ETag", "Last-Modified", "Content-Length", "Accept-Ranges"} {
		w.Header().Del(h)
	}
	writeProblem(w, &wire.Problem{Status: p.Status, Code: p.Code, Title: p.Title, Detail: p.Detail, Remedy: p.Remedy})
}

// steadyResponse moves the deadline of a connection on with each part that is sent.
type steadyResponse struct {
	http.ResponseWriter
	c *http.ResponseController
}

func (s *steadyResponse) Write(p []byte) (int, error) {
	_ = s.c.SetWriteDeadline(time.Now().Add(objectStall))
	return s.ResponseWriter.Write(p)
}

func (s *Server) getObject(w http.ResponseWriter, r *http.Request) error {
	// Who may only look may not look into volumes either.
	if name := r.PathValue("name"); wire.OfVolumes(name) && !access.From(r.Context()).Node &&
		s.permit(r.Context(), may(access.Exec, namespace("namespace")), question{param: r.PathValue}) != nil {
		return wire.Problemf(http.StatusForbidden, "not-allowed", "ask a developer of the namespace", "not allowed", "%s holds what is in a volume: it is for those who may run commands in namespace %s", name, r.PathValue("namespace"))
	}
	v, content, err := s.backend.GetObject(r.Context(), r.PathValue("namespace"), r.PathValue("name"))
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }() // it was read, or the answer was cut off
	return ServeObject(w, r, v, content)
}

// ServeObject answers a GET or HEAD for an object, with ranges and conditions. An
// error means that nothing was sent yet.
func ServeObject(w http.ResponseWriter, r *http.Request, v wire.ObjectView, content io.ReadSeeker) error {
	meta, err := json.Marshal(v)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set(ObjectHeader, string(meta))
	h.Set("ETag", wire.ETag(strings.TrimPrefix(v.Digest, "sha256:")))
	// What somebody put must not become a page of this server.
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox")
	h.Set("Content-Type", v.Type)
	if v.Type == "" {
		h.Set("Content-Type", "application/octet-stream")
	}
	return ranges.Serve(w, r, v.Updated, content)
}

func (s *Server) putObject(w http.ResponseWriter, r *http.Request) error {
	in, err := UploadOf(r)
	if err != nil {
		return err
	}
	in.Body = &steadyBody{r: r.Body, c: http.NewResponseController(w)}
	v, err := s.backend.PutObject(r.Context(), in)
	if err := s.noteObject(r, "put-object", err); err != nil {
		// What is still under way is not waited for.
		w.Header().Set("Connection", "close")
		return err
	}
	return WriteObject(w, v)
}

// UploadOf reads what a request says about the object that it puts, but for its body.
func UploadOf(r *http.Request) (ObjectUpload, error) {
	in := ObjectUpload{Namespace: r.PathValue("namespace"), Name: r.PathValue("name"), Type: r.Header.Get("Content-Type"), Size: r.ContentLength}
	if in.Type == "application/octet-stream" {
		in.Type = "" // what it is without one
	}
	if in.Size > wire.MaxObjectBytes {
		return in, wire.Problemf(http.StatusRequestEntityTooLarge, "object-too-large", "put less, in several objects if need be",
			"the object is too large", "%s: %d bytes, at most %d", in.Name, in.Size, int64(wire.MaxObjectBytes))
	}
	if h := r.Header.Get(digestHeader); h != "" {
		digest, ok := strings.CutPrefix(h, "sha-256=:")
		raw, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(digest, ":"))
		if !ok || err != nil || len(raw) != 32 {
			return in, wire.Problemf(http.StatusBadRequest, "bad-digest", "Content-Digest: sha-256=:BASE64:, or leave it out", "the digest of the object cannot be read", "%q", h[:min(len(h), 100)])
		}
		in.Digest = hex.EncodeToString(raw)
	}
	return in, nil
}

// steadyBody moves the deadline of a connection on with each part that is read.
type steadyBody struct {
	r io.Reader
	c *http.ResponseController
}

func (s *steadyBody) Read(p []byte) (int, error) {
	now := time.Now()
	_ = errors.Join(s.c.SetReadDeadline(now.Add(objectStall)), s.c.SetWriteDeadline(now.Add(2*objectStall)))
	return s.r.Read(p)
}

func (s *Server) removeObject(w http.ResponseWriter, r *http.Request) error {
	v, err := s.backend.RemoveObject(r.Context(), r.PathValue("namespace"), r.PathValue("name"))
	if err := s.noteObject(r, "delete-object", err); err != nil {
		return err
	}
	return WriteObject(w, v)
}

// noteObject records what a person has done with an object, and returns what is to be
// answered if it is not all well.
func (s *Server) noteObject(r *http.Request, what string, err error) error {
	if err != nil || access.From(r.Context()).Node {
		return err
	}
	n := may(access.Store, namespace("namespace"))
	n.id = what
	return s.record(r.Context(), n, question{in: objectSubject(r.PathValue("namespace") + "/" + r.PathValue("name"))}, nil, nil)
}

// objectSubject is what the audit log says that was put or removed.
type objectSubject string

func (o objectSubject) subject() (on, detail string) { return "object/" + string(o), "" }

// WriteObject answers with what an object is, as for a PUT.
func WriteObject(w http.ResponseWriter, v wire.ObjectView) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("ETag", wire.ETag(strings.TrimPrefix(v.Digest, "sha256:")))
	_, _ = w.Write(append(data, '\n')) // a client that is gone cannot be told
	return nil
}

// objectPath of an object. Its name has nothing that would have to be escaped.
func objectPath(namespace, name string) string {
	return wire.ObjectsPath + url.PathEscape(namespace) + "/" + name
}
