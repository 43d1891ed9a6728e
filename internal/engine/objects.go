package engine

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
	"github.com/verge-edge/verge/internal/engine/status"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/handover"
	"github.com/verge-edge/verge/internal/objects/cache"
	"github.com/verge-edge/verge/internal/objects/remote"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/wire"
)

// Where the objects of a worker are.
const (
	objectsDir  = "objects"      // the cache
	objectsFile = "objects.json" // objectsRecord
	// clusterAPIPort is the usual port of a cluster's HTTP interface, for workers that
	// joined before they were told.
	clusterAPIPort = "8473"
)

// objectsRecord is what running instances were told of the way to objects, and so
// must outlive the process.
type objectsRecord struct {
	V      int    `json:"v"`
	Port   int    `json:"port"`
	Secret []byte `json:"secret"`
}

// stock is the worker's part of the object store. It opens its door when the first
// instance is started; until then it is nothing but this.
type stock struct {
	dir      string
	log      *slog.Logger
	problems *status.Problems
	id       *identity.Identity
	above    *remote.Remote
	cache    *cache.Cache
	spawn    func(func(context.Context)) // runs until the engine ends
	doorless bool
	sockets  *handover.Sockets

	mu sync.Mutex // guards below
	// door is nil until somebody needs it, base the address of it on the loopback.
	door *cache.Door
	base string
	ends bool
}

func newStock(dir string, problems *status.Problems, revoked *pki.Revoked, log *slog.Logger) *stock {
	idDir := filepath.Join(dir, wire.IdentityDir)
	s := &stock{dir: dir, log: log, problems: problems, id: identity.New(idDir, revoked, log)}
	s.above = remote.New(s.tls, s.addrs)
	s.cache = cache.New(cache.Options{Dir: filepath.Join(dir, objectsDir), Above: s.above, Log: log})
	return s
}

// tls proves that this is the worker, to its cluster alone.
func (s *stock) tls() (*tls.Config, error) {
	joined, err := enroll.Joined(filepath.Join(s.dir, wire.IdentityDir))
	if err != nil {
		return nil, err
	}
	return s.id.ClientTLS(joined.LinkName)
}

// addrs are those of the cluster's HTTP interface, as the agent knows them now.
func (s *stock) addrs() []string {
	joined, err := enroll.Joined(filepath.Join(s.dir, wire.IdentityDir))
	if err != nil {
		return nil
	}
	_, _ = s.id.ServerTLS() // takes up a renewed certificate; what is wrong with it the handshake says
	return enroll.APIAddrs(joined, joined.Link, clusterAPIPort)
}

// url is where an instance finds the objects of its namespace; host is the worker's
// address where the instance has a network of its own, else "".
func (s *stock) url(namespace, host string) string {
	if s.doorless {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.openLocked(); err != nil {
		s.problems.Tell("objects", "instances do not find their objects: "+err.Error())
		return ""
	}
	return "http://" + cmp.Or(host, s.base) + "/" + s.door.Key(namespace)
}

// resume opens the door again that an earlier engine had.
func (s *stock) resume() {
	if _, err := os.Stat(filepath.Join(s.dir, objectsFile)); err != nil {
		return // nobody has needed it
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.openLocked(); err != nil {
		s.problems.Tell("objects", "instances do not find their objects: "+err.Error())
	}
}

func (s *stock) openLocked() error {
	if s.ends {
		return state.ErrStopped
	}
	if s.door != nil && s.base != "" {
		return nil
	}
	rec, err := s.record()
	if err != nil {
		return err
	}
	listen := func(port int) (net.Listener, error) {
		return s.sockets.Listen(context.Background(), net.ListenConfig{}, handover.Chosen, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	}
	ln, err := listen(rec.Port)
	if err != nil && rec.Port != 0 {
		s.log.Warn("the port of objects is taken, what runs does not find them until it is started again", "error", err)
		ln, err = listen(0)
	}
	if err != nil {
		return err
	}
	if port := ln.Addr().(*net.TCPAddr).Port; port != rec.Port {
		rec.Port = port
		if err := objectsKind.Write(filepath.Join(s.dir, objectsFile), rec); err != nil {
			return errors.Join(err, ln.Close())
		}
	}
	s.base = ln.Addr().String()
	if s.door == nil {
		s.door = cache.NewDoor(s.cache, s.above, rec.Secret, s.log)
	}
	s.serveLocked(ln)
	return nil
}

func (s *stock) serveLocked(ln net.Listener) {
	door := s.door
	s.spawn(func(context.Context) {
		if err := door.Serve(ln); err != nil {
			s.problems.Tell("objects", "instances do not find their objects: "+err.Error())
		}
	})
}

// serve answers on the worker's own address in the service network.
func (s *stock) serve(ln net.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.openLocked(); err != nil {
		s.problems.Tell("objects", "instances do not find their objects: "+err.Error())
		_ = ln.Close() // nothing was taken from it
		return
	}
	s.serveLocked(ln)
}

// record is what an earlier engine has told, or new. One that is damaged is new: what
// runs finds its objects again when it is started again.
func (s *stock) record() (objectsRecord, error) {
	var rec objectsRecord
	path := filepath.Join(s.dir, objectsFile)
	_, err := objectsKind.Read(path, &rec)
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
		s.log.Warn("the file is damaged, what runs does not find its objects until it is started again", "file", path, "error", err)
	}
	rec = objectsRecord{V: wire.Version, Secret: make([]byte, 32)}
	_, err = rand.Read(rec.Secret)
	return rec, err
}

// drain takes nothing new, and waits until what is on its way has arrived, or ctx is done.
func (s *stock) drain(ctx context.Context) {
	if door := s.end(); door != nil {
		if err := door.Drain(ctx); err != nil {
			s.log.Warn("objects are cut that were on their way at the upgrade", "error", err)
		}
	}
}

// end opens no door any more. It returns the one that is open, nil for none.
func (s *stock) end() *cache.Door {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ends = true
	return s.door
}

// close ends all.
func (s *stock) close() {
	if door := s.end(); door != nil {
		if err := door.Close(); err != nil {
			s.log.Debug("closing the way to objects", "error", err)
		}
	}
	s.cache.Close()
	s.above.Close()
}

// OpenObject finds an object of a namespace, as "namespace/name": a path at which it
// stays until it is released.
func (e *Engine) OpenObject(ctx context.Context, name string) (path string, release func(), err error) {
	namespace, name, ok := strings.Cut(name, "/")
	if !ok {
		return "", nil, fmt.Errorf("%q has no namespace", name)
	}
	f, err := e.kit.stock.cache.Open(ctx, cmp.Or(namespace, api.DefaultNamespace), name)
	if err != nil {
		return "", nil, err
	}
	return f.Name(), func() { _ = f.Close() }, nil // it was only read
}

// samples are the figures of the cache.
func (s *stock) samples() []obs.Sample {
	files, bytes := s.cache.Usage()
	c := &s.cache.Counts
	return []obs.Sample{
		{Name: "verge_worker_object_cache_files", Help: "Objects that are kept on this worker.", Value: float64(files)},
		{Name: "verge_worker_object_cache_bytes", Help: "What they take on its disk.", Value: float64(bytes)},
		{Name: "verge_worker_object_hits_total", Help: "Objects that were asked for and there, since the engine started.", Counter: true, Value: float64(c.Hits.Load())},
		{Name: "verge_worker_object_misses_total", Help: "Objects that were fetched from the cluster, since the engine started.", Counter: true, Value: float64(c.Misses.Load())},
		{Name: "verge_worker_object_stale_total", Help: "Objects that were given out while the cluster could not be asked, since the engine started.", Counter: true, Value: float64(c.Stale.Load())},
		{Name: "verge_worker_object_evicted_total", Help: "Objects that were dropped for others, since the engine started.", Counter: true, Value: float64(c.Evicted.Load())},
		{Name: "verge_worker_object_damaged_total", Help: "Objects of which the content was not what it should be, since the engine started.", Counter: true, Value: float64(c.Damaged.Load())},
	}
}

var (
	objectsKind = &statefile.Kind{What: "what instances were told of objects", Max: maxConfig, Version: wire.Version}
)
