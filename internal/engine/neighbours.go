package engine

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/container"
	"github.com/verge-edge/verge/internal/wire"
)

const (
	// maxGiven are the parts of images that other workers get at a time.
	maxGiven = 8
	// giveStall is how long another worker may read nothing, or ask nothing, and how
	// long one may take to answer.
	giveStall = 30 * time.Second
	// reachWithin is how long a neighbour may take to accept a connection.
	reachWithin = 5 * time.Second
	// askClusterWithin is how long the cluster may take to say who has an image.
	askClusterWithin = 5 * time.Second
)

// neighbours copy images from each other. Who has one is known to the cluster; what is
// copied goes over the workers' data ports, between workers of the cluster alone.
type neighbours struct {
	engine *Engine
	log    *slog.Logger
	copier runtime.Copier
	given  chan struct{} // holds as many as are being given
	sent   atomic.Int64  // bytes to other workers
}

// shareImages lets the driver that keeps images share them with other workers.
func (e *Engine) shareImages() {
	for _, d := range e.opts.Drivers {
		c, ok := d.(runtime.Copier)
		if !ok {
			continue
		}
		e.images = &neighbours{engine: e, log: e.log, copier: c, given: make(chan struct{}, maxGiven)}
		if e.opts.Config.DataAddr != "" { // else it would only take
			c.Neighbours(e.images.find)
		}
	}
}

// find asks the cluster who may have an image, by its full name.
func (n *neighbours) find(ctx context.Context, image string) ([]runtime.Neighbour, error) {
	e := n.engine
	e.mu.Lock()
	said := ""
	for i := range e.orders {
		if s := e.orders[i].Spec; s != nil && s.Image != "" {
			if full, err := container.FullName(s.Image); err == nil && full == image {
				said = s.Image // as the descriptor has it, which the cluster compares
			}
		}
	}
	e.mu.Unlock()
	if said == "" {
		return nil, errors.New("nothing is ordered of it")
	}
	ctx, cancel := context.WithTimeout(ctx, askClusterWithin)
	defer cancel()
	list, err := e.kit.stock.above.ImageSources(ctx, said)
	if err != nil {
		return nil, err
	}
	var out []runtime.Neighbour
	for _, s := range list {
		out = append(out, n.neighbour(s))
	}
	return out, nil
}

// neighbour is another worker that may have an image.
type neighbour struct {
	wire.ImageSource
	client *http.Client
}

func (n *neighbours) neighbour(s wire.ImageSource) *neighbour {
	name := pki.WorkerName(n.engine.opts.Config.Cluster, s.Worker)
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, reachWithin)
		defer cancel()
		given, err := n.engine.kit.stock.id.ClientTLS(name)
		if err != nil {
			return nil, err
		}
		cfg := given.Clone()
		cfg.NextProtos = []string{wire.ImageProtocol}
		raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.Address)
		if err != nil {
			return nil, err
		}
		conn := tls.Client(raw, cfg)
		if err = conn.HandshakeContext(ctx); err == nil && conn.ConnectionState().NegotiatedProtocol != wire.ImageProtocol {
			err = errors.New("it does not share images: it has an older version")
		}
		if err != nil {
			return nil, errors.Join(err, raw.Close())
		}
		return conn, nil
	}
	return &neighbour{s, &http.Client{Transport: &http.Transport{
		DialContext: dial, IdleConnTimeout: 5 * time.Second, MaxConnsPerHost: 3, ResponseHeaderTimeout: giveStall, DisableCompression: true,
	}}}
}

// Name implements runtime.Neighbour.
func (n *neighbour) Name() string { return n.Worker }

// Pending implements runtime.Neighbour.
func (n *neighbour) Pending() bool { return n.ImageSource.Pending }

// Blob implements runtime.Neighbour.
func (n *neighbour) Blob(ctx context.Context, image, digest string, offset int64) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://worker"+wire.ImageBlobPath+digest+"?image="+url.QueryEscape(image), nil)
	if err != nil {
		cancel()
		return nil, err
	}
	if offset > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
	}
	res, err := n.client.Do(req)
	if err != nil {
		cancel()
		return nil, err
	}
	if offset == 0 && res.StatusCode == http.StatusOK || offset > 0 && res.StatusCode == http.StatusPartialContent {
		return &watched{ReadCloser: res.Body, timer: time.AfterFunc(giveStall, cancel), cancel: cancel}, nil
	}
	defer cancel()
	_, _ = io.CopyN(io.Discard, res.Body, 4<<10) // so that the connection is used again
	_ = res.Body.Close()
	if done, err := strconv.ParseInt(res.Header.Get(wire.ImageFetchedHeader), 10, 64); err == nil && res.StatusCode == http.StatusServiceUnavailable {
		return nil, &runtime.Fetching{Done: done}
	}
	return nil, fmt.Errorf("worker %s: %s", n.Worker, res.Status)
}

// watched is a body that ends when nothing comes.
type watched struct {
	io.ReadCloser
	timer  *time.Timer
	cancel func()
}

func (w *watched) Read(p []byte) (int, error) {
	w.timer.Reset(giveStall)
	n, err := w.ReadCloser.Read(p)
	w.timer.Stop()
	return n, err
}

func (w *watched) Close() error {
	w.timer.Stop()
	err := w.ReadCloser.Close()
	w.cancel()
	return err
}

// serveImages answers a worker that copies an image.
func (e *Engine) serveImages(ctx context.Context, conn *tls.Conn) {
	if e.images == nil {
		_ = conn.Close()
		return
	}
	e.images.serve(ctx, conn)
}

// samples are figures of where images come from.
func (n *neighbours) samples() []obs.Sample {
	if n == nil {
		return nil
	}
	const name, help = "verge_worker_image_bytes_total", "Bytes of images that this worker has fetched, by where they came from, and that it has sent to others, since the engine started."
	registries, others := n.copier.Copied()
	return []obs.Sample{
		{Name: name, Help: help, Labels: [][2]string{{"from", "registry"}}, Counter: true, Value: float64(registries)},
		{Name: name, Help: help, Labels: [][2]string{{"from", "worker"}}, Counter: true, Value: float64(others)},
		{Name: name, Help: help, Labels: [][2]string{{"from", "sent"}}, Counter: true, Value: float64(n.sent.Load())},
	}
}

// serve answers a worker that copies an image, until it hangs up.
func (n *neighbours) serve(ctx context.Context, conn *tls.Conn) {
	defer conn.Close() //nolint:errcheck // whoever asks sees it
	if s, err := pki.PeerSubject(conn.ConnectionState()); err != nil || s.Cluster != n.engine.opts.Config.Cluster {
		return
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+wire.ImageBlobPath+"{digest}", n.give)
	srv := &http.Server{
		Handler: mux, ReadHeaderTimeout: giveStall, IdleTimeout: giveStall, MaxHeaderBytes: 8 << 10,
		ErrorLog: slog.NewLogLogger(n.log.Handler(), slog.LevelDebug),
	}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	one := &oneConn{Conn: conn, over: make(chan struct{})}
	_ = srv.Serve(one) // it ends with the connection
}

// give answers with a part of an image that is kept here.
func (n *neighbours) give(w http.ResponseWriter, r *http.Request) {
	select {
	case n.given <- struct{}{}:
		defer func() { <-n.given }()
	default:
		w.Header().Set(wire.ImageFetchedHeader, "0")
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	blob, err := n.copier.Blob(r.Context(), r.PathValue("digest"))
	if err != nil {
		if done, ok := n.copier.Fetching(r.FormValue("image")); ok {
			w.Header().Set(wire.ImageFetchedHeader, strconv.FormatInt(done, 10))
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		http.Error(w, "not here", http.StatusNotFound)
		return
	}
	defer blob.Close() //nolint:errcheck // read only
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(&patient{ResponseWriter: w, c: http.NewResponseController(w), sent: &n.sent}, r, "", time.Time{}, blob)
}

// patient gives up on who does not read.
type patient struct {
	http.ResponseWriter
	c    *http.ResponseController
	sent *atomic.Int64
}

func (p *patient) Write(b []byte) (int, error) {
	_ = p.c.SetWriteDeadline(time.Now().Add(giveStall)) // a connection that is over says so itself
	n, err := p.ResponseWriter.Write(b)
	p.sent.Add(int64(n))
	return n, err
}

// oneConn is a listener with one connection, which it accepts once.
type oneConn struct {
	net.Conn
	once sync.Once
	over chan struct{}
	gone bool
}

// Accept implements net.Listener.
func (o *oneConn) Accept() (net.Conn, error) {
	if !o.gone {
		o.gone = true
		return &heardConn{Conn: o.Conn, o: o}, nil
	}
	<-o.over
	return nil, net.ErrClosed
}

// Addr implements net.Listener.
func (o *oneConn) Addr() net.Addr { return o.LocalAddr() }

// Close implements net.Listener.
func (o *oneConn) Close() error {
	o.once.Do(func() { close(o.over) })
	return nil
}

type heardConn struct {
	net.Conn
	o *oneConn
}

func (c *heardConn) Close() error {
	_ = c.o.Close()
	return c.Conn.Close()
}
