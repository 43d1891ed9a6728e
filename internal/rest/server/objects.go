package server

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/ranges"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/rest/server/audit"
	"github.com/verge-edge/verge/internal/wire"
)

const (
	// objectStall is how long a part of an object may take.
	objectStall = 30 * time.Second
	// maxTransfers of objects go on at a time.
	maxTransfers = 64
)

// addObjectStreams adds what moves content: it is sent while it is read, as long as that
// takes.
func (s *Server) addObjectStreams() {
	b, _ := s.backend.(rest.Objects)
	o := objects{s, b}
	s.stream(rest.GetObject, s.transfer(o.get))
	s.stream(rest.PutObject, s.transfer(o.put))
	s.stream(rest.DeleteObject, s.transfer(o.remove))
}

// objects are those of a backend.
type objects struct {
	*Server
	kept rest.Objects
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
	rest.WriteProblem(w, wire.Problemf(http.StatusServiceUnavailable, "busy", "try again in a moment",
		"too many objects are being moved", "%d at a time", maxTransfers))
}

func objectProblem(w http.ResponseWriter, err error) {
	for _, h := range []string{rest.ObjectHeader, "ETag", "Last-Modified", "Content-Length", "Accept-Ranges"} {
		w.Header().Del(h)
	}
	rest.WriteProblem(w, rest.ProblemOf(err))
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

func (s objects) get(w http.ResponseWriter, r *http.Request) error {
	// Who may only look may not look into volumes either.
	if name := r.PathValue("name"); wire.OfVolumes(name) && !access.From(r.Context()).Node &&
		s.permit(r.Context(), rest.ReadVolumes, rest.Question{Param: r.PathValue}) != nil {
		return wire.Problemf(http.StatusForbidden, "not-allowed", "ask a developer of the namespace", "not allowed",
			"%s holds what is in a volume: it is for those who may run commands in namespace %s", name,
			r.PathValue("namespace"))
	}
	v, content, err := s.kept.GetObject(r.Context(), r.PathValue("namespace"), r.PathValue("name"))
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }() // it was read, or the answer was cut off
	return ServeObject(w, r, v, content)
}

// ServeObject answers a GET or HEAD for an object, with ranges and conditions. An
// error means that nothing was sent yet.
func ServeObject(w http.ResponseWriter, r *http.Request, v apiv1.ObjectView, content io.ReadSeeker) error {
	meta, err := json.Marshal(v)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set(rest.ObjectHeader, string(meta))
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

func (s objects) put(w http.ResponseWriter, r *http.Request) error {
	in, err := UploadOf(r)
	if err != nil {
		return err
	}
	in.Body = &steadyBody{r: r.Body, c: http.NewResponseController(w)}
	v, err := s.kept.PutObject(r.Context(), in)
	if err := s.noteObject(r, rest.PutObject.ID, err); err != nil {
		// What is still under way is not waited for.
		w.Header().Set("Connection", "close")
		return err
	}
	return WriteObject(w, v)
}

// UploadOf reads what a request says about the object that it puts, but for its body.
func UploadOf(r *http.Request) (rest.ObjectUpload, error) {
	in := rest.ObjectUpload{Namespace: r.PathValue("namespace"), Name: r.PathValue("name"),
		Type: r.Header.Get("Content-Type"), Size: r.ContentLength}
	if in.Type == "application/octet-stream" {
		in.Type = "" // what it is without one
	}
	if in.Size > wire.MaxObjectBytes {
		return in, wire.Problemf(http.StatusRequestEntityTooLarge, "object-too-large",
			"put less, in several objects if need be",
			"the object is too large", "%s: %d bytes, at most %d", in.Name, in.Size, int64(wire.MaxObjectBytes))
	}
	if h := r.Header.Get(rest.DigestHeader); h != "" {
		digest, ok := strings.CutPrefix(h, "sha-256=:")
		raw, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(digest, ":"))
		if !ok || err != nil || len(raw) != 32 {
			return in, wire.Problemf(http.StatusBadRequest, "bad-digest",
				"Content-Digest: sha-256=:BASE64:, or leave it out", "the digest of the object cannot be read", "%q",
				h[:min(len(h), 100)])
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

func (s objects) remove(w http.ResponseWriter, r *http.Request) error {
	v, err := s.kept.RemoveObject(r.Context(), r.PathValue("namespace"), r.PathValue("name"))
	if err := s.noteObject(r, rest.DeleteObject.ID, err); err != nil {
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
	on := objectSubject(r.PathValue("namespace") + "/" + r.PathValue("name"))
	return s.audit.Record(r.Context(), audit.Operation{ID: what, Needs: rest.StoreObjects}, rest.Question{In: on}, nil,
		nil)
}

// objectSubject is what the audit log says that was put or removed.
type objectSubject string

// Subject implements rest.Subjecter.
func (o objectSubject) Subject() (on, detail string) { return "object/" + string(o), "" }

// WriteObject answers with what an object is, as for a PUT.
func WriteObject(w http.ResponseWriter, v apiv1.ObjectView) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("ETag", wire.ETag(strings.TrimPrefix(v.Digest, "sha256:")))
	_, _ = w.Write(append(data, '\n')) // a client that is gone cannot be told
	return nil
}
