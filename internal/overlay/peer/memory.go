package peer

import (
	"encoding/json"
	"errors"
	"hash/fnv"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/atomicfile/statefile"
	"github.com/verge-edge/verge/internal/wire"
)

const (
	maxMemory     = 1024
	maxMemoryFile = 256 << 10
)

// memory is where workers were last reached directly. It is a hint: what it says
// is tried first and believed only when it answers.
type memory struct {
	path string
	log  *slog.Logger

	mu    sync.Mutex // guards below
	paths []remembered
	saved sync.Mutex // one writer at a time
}

type remembered struct {
	Cluster  string         `json:"cluster"`
	Worker   string         `json:"worker"`
	Endpoint netip.AddrPort `json:"endpoint"`
}

type memoryFile struct {
	V     int          `json:"v"`
	Paths []remembered `json:"paths"`
}

var memoryKind = &statefile.Kind{What: "paths to other workers", Max: maxMemoryFile, Version: 1}

func openMemory(path string, log *slog.Logger) *memory {
	m := &memory{path: path, log: log}
	if path == "" {
		return m
	}
	var f memoryFile
	_, err := memoryKind.Read(path, &f)
	if err == nil {
		m.paths = f.Paths[:min(len(f.Paths), maxMemory)]
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		log.Warn("the remembered paths cannot be read, they are found anew", "file", path, "error", err)
	}
	return m
}

func (m *memory) of(who id) (netip.AddrPort, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.paths {
		if p.Cluster == who.cluster && p.Worker == who.worker {
			return p.Endpoint, p.Endpoint.IsValid()
		}
	}
	return netip.AddrPort{}, false
}

// remember is true if that was not known.
func (m *memory) remember(who id, at netip.AddrPort) bool {
	if m.path == "" || !at.IsValid() {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	entry := remembered{who.cluster, who.worker, at}
	if slices.Contains(m.paths, entry) {
		return false
	}
	m.paths = slices.DeleteFunc(m.paths,
		func(p remembered) bool { return p.Cluster == who.cluster && p.Worker == who.worker })
	if len(m.paths) >= maxMemory {
		m.paths = m.paths[1:]
	}
	m.paths = append(m.paths, entry)
	return true
}

func (m *memory) save() {
	m.saved.Lock()
	defer m.saved.Unlock()
	m.mu.Lock()
	data, err := json.Marshal(memoryFile{memoryKind.Version, m.paths})
	m.mu.Unlock()
	if err == nil {
		err = memoryKind.Put(m.path, data, atomicfile.Write)
	}
	if err != nil {
		m.log.Warn("the paths to other workers cannot be remembered", "error", err)
	}
}

func seedOf(cluster, worker string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(cluster + "/" + worker))
	return h.Sum64()
}

// list of addresses for people.
func list(all []netip.AddrPort) string {
	if len(all) == 0 {
		return "it named none"
	}
	var s []string
	for _, a := range all {
		s = append(s, a.String())
	}
	return strings.Join(s, ", ")
}

// Status is how this worker reaches the others, for people.
func (m *Manager) Status() Paths {
	port, _ := m.opts.Device.Port()
	status, _ := m.opts.Device.Peers()
	m.mu.Lock()
	defer m.mu.Unlock()
	p := Paths{V: 1, Key: m.opts.Device.Public().String(), Port: port, Outside: m.home.outside, NAT: m.home.nat,
		RelayWhy: m.home.why}
	if m.home.joined {
		p.Relay = m.home.relay.Name
	}
	for who, k := range m.peers {
		w := Path{Cluster: who.cluster, Worker: who.worker, Path: k.kind, Why: k.why, Since: k.since}
		if k.acc != nil {
			s := status[k.acc.key]
			w.Addr, w.Handshake, w.Rx, w.Tx = k.acc.Inner, s.Handshake, s.Rx, s.Tx
		} else if w.Why == "" {
			w.Why = "its answer to an offer is awaited"
		}
		switch k.kind {
		case wire.PathDirect:
			w.Endpoint = k.direct
		case wire.PathRelay:
			w.Endpoint, w.Relay = k.relay, k.relayName
		}
		p.Peers = append(p.Peers, w)
	}
	slices.SortFunc(p.Peers, func(a, b Path) int {
		return strings.Compare(a.Cluster+"/"+a.Worker, b.Cluster+"/"+b.Worker)
	})
	return p
}
