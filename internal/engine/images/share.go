package images

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

	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

const (
	// maxSending are the parts of images that other workers get at a time.
	maxSending = 8
	// stallTimeout is how long another worker may read nothing, or ask nothing, and how
	// long one may take to answer.
	stallTimeout = 30 * time.Second
	// dialTimeout is how long a neighbour may take to accept a connection.
	dialTimeout = 5 * time.Second
	// clusterTimeout is how long the cluster may take to name the workers with an image.
	clusterTimeout = 5 * time.Second
)

// Options of a Manager.
type Options struct {
	Cluster string
	// Shares: other workers of the cluster can reach this one, and so copy from each other.
	Shares  bool
	Pull    engineapi.PullConfig
	Drivers map[string]runtime.Driver
	// Above is the cluster, which knows the workers with an image.
	Above interface {
		ImageSources(ctx context.Context, image string) ([]rpc.ImageSource, error)
		ImagesGone(ctx context.Context, gone []rpc.ImageGone) error
	}
	// TLS is for connections to the server of a name.
	TLS func(name string) (*tls.Config, error)
	// Ordered are the images of the orders, by full name as their descriptors have them;
	// false where the orders are not known.
	Ordered func() (map[string]string, bool)
	Log     *slog.Logger
}

// Manager keeps the images of a worker. Workers copy them from each other: the cluster knows
// where an image is; the copy uses the workers' data ports, only between workers of the cluster.
type Manager struct {
	o       Options
	copier  runtime.Copier // nil: no driver has images
	sending chan struct{}  // holds as many as are being given
	sent    atomic.Int64   // bytes to other workers
}

// New lets the driver that has images share them with other workers.
func New(o Options) *Manager {
	m := &Manager{o: o, sending: make(chan struct{}, maxSending)}
	for _, d := range o.Drivers {
		c, ok := d.(runtime.Copier)
		if !ok {
			continue
		}
		m.copier = c
		if o.Shares { // else it would only take
			c.Neighbours(m.find)
		}
	}
	return m
}

// find asks the cluster who may have an image, by its full name.
func (m *Manager) find(ctx context.Context, image string) ([]runtime.Neighbour, error) {
	ordered, _ := m.o.Ordered()
	said := ordered[image] // as the descriptor has it, which the cluster compares
	if said == "" {
		return nil, errors.New("nothing is ordered of it")
	}
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	list, err := m.o.Above.ImageSources(ctx, said)
	if err != nil {
		return nil, err
	}
	var out []runtime.Neighbour
	for _, s := range list {
		out = append(out, m.neighbour(s))
	}
	return out, nil
}

// neighbour is another worker that may have an image.
type neighbour struct {
	rpc.ImageSource
	client *http.Client
}

func (m *Manager) neighbour(s rpc.ImageSource) *neighbour {
	name := pki.WorkerName(m.o.Cluster, s.Worker)
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		given, err := m.o.TLS(name)
		if err != nil {
			return nil, err
		}
		cfg := given.Clone()
		cfg.NextProtos = []string{rpc.ImageProtocol}
		raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.Address)
		if err != nil {
			return nil, err
		}
		conn := tls.Client(raw, cfg)
		if err = conn.HandshakeContext(ctx); err == nil &&
			conn.ConnectionState().NegotiatedProtocol != rpc.ImageProtocol {
			err = errors.New("it does not share images: it has an older version")
		}
		if err != nil {
			return nil, errors.Join(err, raw.Close())
		}
		return conn, nil
	}
	return &neighbour{s, &http.Client{Transport: &http.Transport{
		DialContext: dial, IdleConnTimeout: 5 * time.Second, MaxConnsPerHost: 3, ResponseHeaderTimeout: stallTimeout,
		DisableCompression: true,
	}}}
}

// Name implements runtime.Neighbour.
func (n *neighbour) Name() string { return n.Worker }

// Pending implements runtime.Neighbour.
func (n *neighbour) Pending() bool { return n.ImageSource.Pending }

// Blob implements runtime.Neighbour.
func (n *neighbour) Blob(ctx context.Context, image, digest string, offset int64) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet,
		"http://worker"+rpc.ImageBlobPath+digest+"?image="+url.QueryEscape(image), nil)
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
		return &stallReader{ReadCloser: res.Body, timer: time.AfterFunc(stallTimeout, cancel), cancel: cancel}, nil
	}
	defer cancel()
	_, _ = io.CopyN(io.Discard, res.Body, 4<<10) // so that the connection is used again
	_ = res.Body.Close()
	if done, err := strconv.ParseInt(res.Header.Get(rpc.ImageFetchedHeader), 10, 64); err == nil &&
		res.StatusCode == http.StatusServiceUnavailable {
		return nil, &runtime.Fetching{Done: done}
	}
	return nil, fmt.Errorf("worker %s: %s", n.Worker, res.Status)
}

// stallReader is a body that ends when nothing comes.
type stallReader struct {
	io.ReadCloser
	timer  *time.Timer
	cancel func()
}

func (w *stallReader) Read(p []byte) (int, error) {
	w.timer.Reset(stallTimeout)
	n, err := w.ReadCloser.Read(p)
	w.timer.Stop()
	return n, err
}

func (w *stallReader) Close() error {
	w.timer.Stop()
	err := w.ReadCloser.Close()
	w.cancel()
	return err
}

// Samples are figures of where images come from.
func (m *Manager) Samples() []obs.Sample {
	if m.copier == nil {
		return nil
	}
	const name, help = "verge_worker_image_bytes_total",
		"Bytes of images that this worker has fetched, by where they came from, and that it has sent to others, " +
			"since the engine started."
	registries, others := m.copier.Copied()
	return []obs.Sample{
		{Name: name, Help: help, Labels: [][2]string{{"from", "registry"}}, Counter: true, Value: float64(registries)},
		{Name: name, Help: help, Labels: [][2]string{{"from", "worker"}}, Counter: true, Value: float64(others)},
		{Name: name, Help: help, Labels: [][2]string{{"from", "sent"}}, Counter: true, Value: float64(m.sent.Load())},
	}
}

// Serve answers a worker that copies an image, until it hangs up.
func (m *Manager) Serve(ctx context.Context, conn *tls.Conn) {
	defer conn.Close() //nolint:errcheck // whoever asks sees it
	if m.copier == nil {
		return
	}
	if s, err := pki.PeerSubject(conn.ConnectionState()); err != nil || s.Cluster != m.o.Cluster {
		return
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+rpc.ImageBlobPath+"{digest}", m.send)
	srv := &http.Server{
		Handler: mux, ReadHeaderTimeout: stallTimeout, IdleTimeout: stallTimeout, MaxHeaderBytes: 8 << 10,
		ErrorLog: slog.NewLogLogger(m.o.Log.Handler(), slog.LevelDebug),
	}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	one := &singleListener{Conn: conn, over: make(chan struct{})}
	_ = srv.Serve(one) // it ends with the connection
}

// send answers with a part of an image that is kept here.
func (m *Manager) send(w http.ResponseWriter, r *http.Request) {
	select {
	case m.sending <- struct{}{}:
		defer func() { <-m.sending }()
	default:
		w.Header().Set(rpc.ImageFetchedHeader, "0")
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	blob, err := m.copier.Blob(r.Context(), r.PathValue("digest"))
	if err != nil {
		if done, ok := m.copier.Fetching(r.FormValue("image")); ok {
			w.Header().Set(rpc.ImageFetchedHeader, strconv.FormatInt(done, 10))
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		http.Error(w, "not here", http.StatusNotFound)
		return
	}
	defer blob.Close() //nolint:errcheck // read only
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(&stallWriter{ResponseWriter: w, c: http.NewResponseController(w), sent: &m.sent}, r, "",
		time.Time{}, blob)
}

// stallWriter gives up on a reader that stalls.
type stallWriter struct {
	http.ResponseWriter
	c    *http.ResponseController
	sent *atomic.Int64
}

func (p *stallWriter) Write(b []byte) (int, error) {
	_ = p.c.SetWriteDeadline(time.Now().Add(stallTimeout)) // a connection that is over says so itself
	n, err := p.ResponseWriter.Write(b)
	p.sent.Add(int64(n))
	return n, err
}

// singleListener is a listener with one connection, which it accepts once.
type singleListener struct {
	net.Conn
	once sync.Once
	over chan struct{}
	gone bool
}

// Accept implements net.Listener.
func (o *singleListener) Accept() (net.Conn, error) {
	if !o.gone {
		o.gone = true
		return &closeNotifier{Conn: o.Conn, o: o}, nil
	}
	<-o.over
	return nil, net.ErrClosed
}

// Addr implements net.Listener.
func (o *singleListener) Addr() net.Addr { return o.LocalAddr() }

// Close implements net.Listener.
func (o *singleListener) Close() error {
	o.once.Do(func() { close(o.over) })
	return nil
}

type closeNotifier struct {
	net.Conn
	o *singleListener
}

func (c *closeNotifier) Close() error {
	_ = c.o.Close()
	return c.Conn.Close()
}
