package cache

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/verge-edge/verge/internal/accept"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/rest/server"
	"github.com/verge-edge/verge/internal/wire"
)

// Bounds of the server.
const (
	maxMoving     = 32 // requests at a time
	headerTimeout = 5 * time.Second
	idleTimeout   = 30 * time.Second
	maxHeader     = 16 << 10
	transferStall = 30 * time.Second
)

// Putter takes what instances put.
type Putter interface {
	Put(ctx context.Context, in rest.ObjectUpload) (apiv1.ObjectView, error)
}

// Server is the HTTP interface that instances have: GET, HEAD and PUT of
// /KEY/NAMESPACE/NAME, where the key is made for the namespace. Who has no key of a
// namespace finds nothing in it, not even that it is there.
type Server struct {
	cache  *Cache
	put    Putter
	secret []byte
	http   *http.Server
	moving chan struct{}
}

// NewServer makes the interface to a cache. The same secret makes the same keys.
func NewServer(c *Cache, put Putter, secret []byte, log *slog.Logger) *Server {
	s := &Server{cache: c, put: put, secret: secret, moving: make(chan struct{}, maxMoving)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{key}/{namespace}/{name...}", s.guard(s.get)) // and HEAD
	mux.HandleFunc("PUT /{key}/{namespace}/{name...}", s.guard(s.putObject))
	s.http = &http.Server{
		Handler: mux, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	return s
}

// Key of a namespace.
func (s *Server) Key(namespace string) string {
	m := hmac.New(sha256.New, s.secret)
	_, _ = m.Write([]byte("objects of " + namespace)) // never fails
	return hex.EncodeToString(m.Sum(nil)[:16])
}

// Serve answers on a listener until that is closed, or the server.
func (s *Server) Serve(ln net.Listener) error {
	if err := s.http.Serve(accept.Listener(ln)); !errors.Is(err, http.ErrServerClosed) &&
		!errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// Drain accepts nothing more, and waits until all that is under way has ended, or ctx is
// done.
func (s *Server) Drain(ctx context.Context) error { return s.http.Shutdown(ctx) }

// Close ends all that is open.
func (s *Server) Close() error { return s.http.Close() }

// guard lets those in who have the key.
func (s *Server) guard(h func(w http.ResponseWriter, r *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		namespace := r.PathValue("namespace")
		if !hmac.Equal([]byte(r.PathValue("key")), []byte(s.Key(namespace))) {
			refuse(w, wire.Problemf(http.StatusForbidden, "not-yours", "use $VERGE_OBJECTS/$VERGE_NAMESPACE/NAME",
				"not allowed", "this address is not for objects of namespace %q", namespace[:min(len(namespace), 63)]))
			return
		}
		if wire.OfVolumes(r.PathValue("name")) {
			// The worker itself may have it now, because of an order about a volume.
			refuse(w, wire.Problemf(http.StatusForbidden, "not-yours", "use another name", "not allowed",
				"objects whose names begin with %s or %s hold what is in volumes, and are not for instances",
				wire.VolumesPrefix, wire.SnapshotsPrefix))
			return
		}
		select {
		case s.moving <- struct{}{}:
			defer func() { <-s.moving }()
		default:
			refuse(w, wire.Problemf(http.StatusServiceUnavailable, "busy", "try again in a moment",
				"too many objects are being moved", "%d at a time", maxMoving))
			return
		}
		c := http.NewResponseController(w)
		s := &moved{ResponseWriter: w, c: c}
		if err := h(s, r); err != nil {
			if s.begun {
				panic(http.ErrAbortHandler)
			}
			refuse(w, err)
		}
	}
}

// moved moves the deadline on with each part that is sent.
type moved struct {
	http.ResponseWriter
	c     *http.ResponseController
	begun bool
}

func (m *moved) WriteHeader(status int) {
	m.begun = true
	m.ResponseWriter.WriteHeader(status)
}

func (m *moved) Write(p []byte) (int, error) {
	m.begun = true
	_ = m.c.SetWriteDeadline(time.Now().Add(transferStall)) // test recorders have none
	return m.ResponseWriter.Write(p)
}

func refuse(w http.ResponseWriter, err error) {
	var p *wire.Problem
	if !errors.As(err, &p) || p.Status == 0 {
		p = wire.Problemf(http.StatusServiceUnavailable, "not-available", "try again", "the object cannot be had now",
			"%v", err)
	}
	rest.WriteProblem(w, p)
}

func (s *Server) get(w http.ResponseWriter, r *http.Request) error {
	f, err := s.cache.Open(r.Context(), r.PathValue("namespace"), r.PathValue("name"))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	return server.ServeObject(w, r, f.View, f)
}

func (s *Server) putObject(w http.ResponseWriter, r *http.Request) error {
	in, err := server.UploadOf(r)
	if err == nil {
		err = wire.CheckObjectName(in.Name)
	}
	if err != nil {
		return err
	}
	in.Body = &movedBody{r: r, c: http.NewResponseController(w)}
	v, err := s.put.Put(r.Context(), in)
	if err != nil {
		var p *wire.Problem
		if errors.As(err, &p) && p.Status != 0 {
			return p
		}
		return wire.Problemf(http.StatusServiceUnavailable, "cluster-away", "try again when the cluster can be reached",
			"the object could not be stored", "%s of namespace %s: %v", in.Name, in.Namespace, err)
	}
	s.cache.Changed(in.Namespace, in.Name)
	return server.WriteObject(w, v)
}

// movedBody moves the deadline on with each part that comes.
type movedBody struct {
	r *http.Request
	c *http.ResponseController
}

func (m *movedBody) Read(p []byte) (int, error) {
	_ = m.c.SetReadDeadline(time.Now().Add(transferStall)) // test recorders have none
	return m.r.Body.Read(p)
}
