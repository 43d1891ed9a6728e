package objects

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/atomicfile/statefile"
	"github.com/verge-edge/verge/internal/engine/identity"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/handover"
	"github.com/verge-edge/verge/internal/objects/cache"
	"github.com/verge-edge/verge/internal/objects/remote"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Where the objects of a worker are.
const (
	objectsDir  = "objects"      // the cache
	objectsFile = "objects.json" // a record
)

// record is the address of objects that running instances have, and so must outlive the process.
type record struct {
	V      int    `json:"v"`
	Port   int    `json:"port"`
	Secret []byte `json:"secret"`
}

// Options of a Cache.
type Options struct {
	// Dir is the directory of the engine.
	Dir string
	// Identity proves that this is the worker.
	Identity *identity.Identity
	// Problem shows what is wrong with a subject in a sentence, "" for nothing.
	Problem func(subject, sentence string)
	// Sockets may have the one that the engine before listened at.
	Sockets *handover.Sockets
	// Off: instances get no access to objects.
	Off bool
	Log *slog.Logger
}

// Cache is the worker's part of the object store. It listens from the start of the first
// instance on; until then it is nothing but this.
type Cache struct {
	o     Options
	above *remote.Remote
	cache *cache.Cache
	spawn func(func(context.Context)) // runs until the engine ends

	mu sync.Mutex // guards below
	// server is nil until somebody needs it, base the address of it on the loopback.
	server *cache.Server
	base   string
	ended  bool
}

// New keeps objects below the directory of an engine.
func New(o Options) *Cache {
	s := &Cache{o: o}
	s.above = remote.New(s.tls, s.addrs)
	s.cache = cache.New(cache.Options{Dir: filepath.Join(o.Dir, objectsDir), Above: s.above, Log: o.Log})
	return s
}

// Cluster is the object store of the cluster, asked as this worker.
func (s *Cache) Cluster() *remote.Remote { return s.above }

// tls proves that this is the worker, to its cluster alone.
func (s *Cache) tls() (*tls.Config, error) {
	joined, err := enroll.Joined(filepath.Join(s.o.Dir, engineapi.IdentityDir))
	if err != nil {
		return nil, err
	}
	return s.o.Identity.ClientTLS(joined.LinkName)
}

// addrs are those of the cluster's HTTP interface, as the agent knows them now.
func (s *Cache) addrs() []string {
	joined, err := enroll.Joined(filepath.Join(s.o.Dir, engineapi.IdentityDir))
	if err != nil {
		return nil
	}
	_, _ = s.o.Identity.ServerTLS() // takes up a renewed certificate; what is wrong with it the handshake says
	return enroll.APIAddrs(joined, joined.Link, rpc.ClusterAPIPort)
}

// URL is where an instance finds the objects of its namespace; host is the worker's
// address where the instance has a network of its own, else "".
func (s *Cache) URL(namespace, host string) string {
	if s.o.Off {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.openLocked(); err != nil {
		s.unreachable(err)
		return ""
	}
	return "http://" + cmp.Or(host, s.base) + "/" + s.server.Key(namespace)
}

// unreachable shows that instances cannot reach their objects.
func (s *Cache) unreachable(err error) {
	s.o.Problem("objects", "instances do not find their objects: "+err.Error())
}

// Start lets the cache work; spawn runs a function until the engine ends. What an earlier
// engine listened at is opened again.
func (s *Cache) Start(spawn func(func(context.Context))) {
	s.spawn = spawn
	if _, err := os.Stat(filepath.Join(s.o.Dir, objectsFile)); err != nil {
		return // nobody has needed it
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.openLocked(); err != nil {
		s.unreachable(err)
	}
}

func (s *Cache) openLocked() error {
	if s.ended {
		return state.ErrStopped
	}
	if s.server != nil && s.base != "" {
		return nil
	}
	rec, err := s.load()
	if err != nil {
		return err
	}
	listen := func(port int) (net.Listener, error) {
		return s.o.Sockets.Listen(context.Background(), net.ListenConfig{}, handover.Chosen, "tcp",
			net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	}
	ln, err := listen(rec.Port)
	if err != nil && rec.Port != 0 {
		s.o.Log.Warn("the port of objects is taken; running instances find objects again after a restart", "error", err)
		ln, err = listen(0)
	}
	if err != nil {
		return err
	}
	if port := ln.Addr().(*net.TCPAddr).Port; port != rec.Port {
		rec.Port = port
		if err := recordKind.Write(filepath.Join(s.o.Dir, objectsFile), rec); err != nil {
			return errors.Join(err, ln.Close())
		}
	}
	s.base = ln.Addr().String()
	if s.server == nil {
		s.server = cache.NewServer(s.cache, s.above, rec.Secret, s.o.Log)
	}
	s.serveLocked(ln)
	return nil
}

func (s *Cache) serveLocked(ln net.Listener) {
	server := s.server
	s.spawn(func(context.Context) {
		if err := server.Serve(ln); err != nil {
			s.unreachable(err)
		}
	})
}

// Serve answers on the worker's own address in the service network.
func (s *Cache) Serve(ln net.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.openLocked(); err != nil {
		s.unreachable(err)
		_ = ln.Close() // nothing was taken from it
		return
	}
	s.serveLocked(ln)
}

// load returns what an earlier engine has told, or new. One that is damaged is new: what
// runs finds its objects again when it is started again.
func (s *Cache) load() (record, error) {
	var rec record
	path := filepath.Join(s.o.Dir, objectsFile)
	_, err := recordKind.Read(path, &rec)
	newer := (*statefile.NewerError)(nil)
	if err == nil {
		if len(rec.Secret) != 32 || rec.Port < 0 || rec.Port > 65535 {
			err = errors.New("it is something else")
		}
	}
	switch {
	case err == nil:
		return rec, nil
	case errors.As(err, &newer):
		return rec, err // with other keys, what runs would never find its objects
	case !errors.Is(err, os.ErrNotExist):
		s.o.Log.Warn("the file is damaged; running instances find objects again after a restart", "file", path, "error",
			err)
	}
	rec = record{V: wire.Version, Secret: make([]byte, 32)}
	_, err = rand.Read(rec.Secret)
	return rec, err
}

// Drain takes nothing new, and waits until what is on its way has arrived, or ctx is done.
func (s *Cache) Drain(ctx context.Context) {
	if server := s.end(); server != nil {
		if err := server.Drain(ctx); err != nil {
			s.o.Log.Warn("objects are cut that were on their way at the upgrade", "error", err)
		}
	}
}

// end closes the listeners. It returns the server that works, nil for none.
func (s *Cache) end() *cache.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	return s.server
}

// Close ends all.
func (s *Cache) Close() {
	if server := s.end(); server != nil {
		if err := server.Close(); err != nil {
			s.o.Log.Debug("closing the way to objects", "error", err)
		}
	}
	s.cache.Close()
	s.above.Close()
}

// Open finds an object of a namespace, as "namespace/name": a path at which it stays until
// it is released.
func (s *Cache) Open(ctx context.Context, name string) (path string, release func(), err error) {
	namespace, name, ok := strings.Cut(name, "/")
	if !ok {
		return "", nil, fmt.Errorf("%q has no namespace", name)
	}
	f, err := s.cache.Open(ctx, cmp.Or(namespace, api.DefaultNamespace), name)
	if err != nil {
		return "", nil, err
	}
	return f.Name(), func() { _ = f.Close() }, nil // it was only read
}

// Samples are the figures of the cache.
func (s *Cache) Samples() []obs.Sample {
	files, bytes := s.cache.Usage()
	c := &s.cache.Counts
	return []obs.Sample{
		{Name: "verge_worker_object_cache_files", Help: "Objects that are kept on this worker.", Value: float64(files)},
		{Name: "verge_worker_object_cache_bytes", Help: "What they take on its disk.", Value: float64(bytes)},
		{Name: "verge_worker_object_hits_total",
			Help: "Objects that were asked for and there, since the engine started.", Counter: true,
			Value: float64(c.Hits.Load())},
		{Name: "verge_worker_object_misses_total",
			Help: "Objects that were fetched from the cluster, since the engine started.", Counter: true,
			Value: float64(c.Misses.Load())},
		{Name: "verge_worker_object_stale_total",
			Help:    "Objects that were given out while the cluster could not be asked, since the engine started.",
			Counter: true, Value: float64(c.Stale.Load())},
		{Name: "verge_worker_object_evicted_total",
			Help: "Objects that were dropped for others, since the engine started.", Counter: true,
			Value: float64(c.Evicted.Load())},
		{Name: "verge_worker_object_damaged_total", Help: "Objects with damaged content, since the engine started.",
			Counter: true, Value: float64(c.Damaged.Load())},
	}
}

var (
	recordKind = &statefile.Kind{What: "what instances were told of objects", Max: 1 << 20, Version: wire.Version}
)
