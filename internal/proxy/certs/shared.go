package certs

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Above is where the gateways of a cluster share what they have of ACME servers. An
// error that is a *wire.Problem with a status is an answer; any other says that nobody
// answered.
type Above interface {
	ACME(ctx context.Context, q rpc.ACMERequest) (rpc.ACMEReply, error)
}

const (
	// askTime is how long one question may take.
	askTime = 10 * time.Second
	// awayFor is how long a cluster that did not answer is not asked again: with many hosts
	// a start without it would wait for each of them.
	awayFor = 3 * time.Second
	// lockAgain is the pause before a lock that another has is asked for again.
	lockAgain = time.Second
	// maxTokenLoads are the challenges that are looked for at a time: anybody who knows a
	// host can ask for them.
	maxTokenLoads = 8
)

// shared is the storage of an account whose gateways share it. A copy on disk is used while the
// cluster is away; a gateway whose cluster does not share has only that.
type shared struct {
	above  Above
	local  *certmagic.FileStorage
	log    *slog.Logger
	tokens chan struct{}
	ctx    context.Context //nolint:containedctx // of the leases
	cancel context.CancelFunc
	leases sync.WaitGroup

	mu sync.Mutex // guards below
	// staged are values that are stored with the last of their folder: another gateway
	// must not see the key of one certificate beside the chain of another.
	staged map[string]map[string][]byte
	// late are folders that are newer here than at the cluster, which was away.
	late map[string]bool
	held map[string]*lease
	// silent is why the cluster is away, and since when.
	silent error
	since  time.Time
}

// lease is a lock that this process has.
type lease struct {
	owner string
	end   context.CancelFunc // nil: it is one on disk
}

var (
	_ certmagic.Storage   = (*shared)(nil)
	_ certmagic.TryLocker = (*shared)(nil)
)

func newShared(above Above, local *certmagic.FileStorage, log *slog.Logger) *shared {
	s := &shared{
		above: above, local: local, log: log, tokens: make(chan struct{}, maxTokenLoads),
		staged: map[string]map[string][]byte{}, late: map[string]bool{}, held: map[string]*lease{},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// close ends the leases and waits for what renews them.
func (s *shared) close() {
	s.cancel()
	s.leases.Wait()
}

func (s *shared) ask(ctx context.Context, q rpc.ACMERequest) (rpc.ACMEReply, error) {
	s.mu.Lock()
	silent, since := s.silent, s.since
	s.mu.Unlock()
	if silent != nil && time.Since(since) < awayFor {
		return rpc.ACMEReply{}, silent
	}
	bounded, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	q.V = wire.Version
	reply, err := s.above.ACME(bounded, q)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.silent, s.since = nil, time.Now(); err != nil && away(err) && ctx.Err() == nil {
		s.silent = err
	}
	return reply, err
}

// alone says that the cluster is of a version that shares nothing, and away that it does
// not answer now. What is neither is an answer.
func alone(err error) bool {
	var p *wire.Problem
	return errors.As(err, &p) && (p.Status == http.StatusNotFound || p.Status == http.StatusMethodNotAllowed)
}

func away(err error) bool {
	var p *wire.Problem
	return !errors.As(err, &p) || p.Status == 0 || p.Status >= 500 || p.Status == http.StatusTooManyRequests
}

func isToken(key string) bool { return strings.Contains(key, "/challenge_tokens/") }

// last says whether a key is the last that certmagic stores of a folder.
func last(key string) bool {
	if strings.HasPrefix(key, "acme/") {
		return strings.HasSuffix(key, ".key")
	}
	return strings.HasSuffix(key, ".json")
}

// Store implements certmagic.Storage.
func (s *shared) Store(ctx context.Context, key string, value []byte) error {
	if isToken(key) {
		_, err := s.ask(ctx, rpc.ACMERequest{Op: rpc.ACMEStore, Values: map[string][]byte{key: value}})
		if alone(err) {
			err = s.local.Store(ctx, key, value)
		}
		return said(err)
	}
	folder := path.Dir(key)
	s.mu.Lock()
	values := s.staged[folder]
	if values == nil {
		values = map[string][]byte{}
	}
	values[key] = slices.Clone(value)
	if !last(key) {
		s.staged[folder] = values
		s.mu.Unlock()
		return nil
	}
	delete(s.staged, folder)
	s.mu.Unlock()
	_, err := s.ask(ctx, rpc.ACMERequest{Op: rpc.ACMEStore, Values: values})
	if err != nil && !alone(err) && !away(err) {
		return said(err)
	}
	for k, v := range values {
		if err := s.local.Store(ctx, k, v); err != nil {
			return fmt.Errorf("keeping what an ACME server gave: %w", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// It is on disk: what the authority gave is not lost because the cluster is away.
	if err != nil && !alone(err) {
		s.late[folder] = true
		s.log.Warn("the cluster does not answer, what an ACME server gave is shared later", "of", folder, "error", err)
	} else {
		delete(s.late, folder)
	}
	return nil
}

// Load implements certmagic.Storage.
func (s *shared) Load(ctx context.Context, key string) ([]byte, error) {
	if isToken(key) {
		select {
		case s.tokens <- struct{}{}:
			defer func() { <-s.tokens }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	} else if s.isLate(path.Dir(key)) {
		s.catchUp(ctx)
		if s.isLate(path.Dir(key)) {
			return s.local.Load(ctx, key)
		}
	}
	reply, err := s.ask(ctx, rpc.ACMERequest{Op: rpc.ACMELoad, Key: key})
	switch {
	case alone(err):
		return s.local.Load(ctx, key)
	case err == nil && reply.Found:
		s.keep(ctx, key, reply.Value)
		return reply.Value, nil
	case isToken(key) && err == nil:
		return nil, fs.ErrNotExist
	case err != nil && !away(err):
		return nil, said(err)
	}
	value, lerr := s.local.Load(ctx, key)
	switch {
	case lerr == nil && err == nil:
		if err = s.takeOver(ctx, path.Dir(key), true); errors.Is(err, errLater) {
			err = nil // what is here is used meanwhile, and the next who asks tries again
		}
		return value, err
	case lerr == nil:
		return value, nil
	case err != nil: // not "there is none": it would be asked for again
		return nil, said(err)
	}
	return nil, fs.ErrNotExist
}

// keep keeps a copy for when the cluster is away.
func (s *shared) keep(ctx context.Context, key string, value []byte) {
	if isToken(key) {
		return
	}
	if old, err := s.local.Load(ctx, key); err == nil && bytes.Equal(old, value) {
		return
	}
	if err := s.local.Store(ctx, key, value); err != nil {
		s.log.Warn("a certificate by ACME is not kept on disk, the gateway has none after a start without its cluster",
			"error", err)
	}
}

// errLater is wrapped by the error of takeOver where another time it may succeed.
var errLater = errors.New("it is tried again")

// takeOver gives the cluster what is in a folder here; absent: where it has nothing of it.
func (s *shared) takeOver(ctx context.Context, folder string, absent bool) error {
	unread := func(err error) error {
		if errors.Is(err, fs.ErrNotExist) { // it is not kept any more
			return fmt.Errorf("reading what is kept by ACME: %w", err)
		}
		return fmt.Errorf("reading what is kept by ACME: %w (%w)", err, errLater)
	}
	keys, err := s.local.List(ctx, folder, false)
	if err != nil {
		return unread(err)
	}
	values := map[string][]byte{}
	for _, k := range keys {
		v, err := s.local.Load(ctx, k)
		if err != nil {
			return unread(err)
		}
		if len(values) < rpc.MaxACMEValues {
			values[k] = v
		}
	}
	if len(values) == 0 {
		return nil
	}
	if _, err = s.ask(ctx, rpc.ACMERequest{Op: rpc.ACMEStore, Values: values, Absent: absent}); err != nil &&
		away(err) {
		return fmt.Errorf("%w: %w", errLater, err)
	}
	if err == nil {
		s.log.Info("what this gateway had of an ACME server is shared with its cluster", "of", folder)
	}
	return said(err)
}

func (s *shared) isLate(folder string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.late[folder]
}

// catchUp shares what the cluster was not there for. It reports whether nothing is left.
func (s *shared) catchUp(ctx context.Context) bool {
	s.mu.Lock()
	var folders []string
	for f := range s.late {
		folders = append(folders, f)
	}
	s.mu.Unlock()
	for _, f := range folders {
		if _, err := s.ask(ctx, rpc.ACMERequest{Op: rpc.ACMEList, Key: f}); err != nil && away(err) {
			return false
		}
		if err := s.takeOver(ctx, f, false); errors.Is(err, errLater) {
			return false // else what the cluster has, which is older, would take its place
		} else if err != nil {
			s.log.Warn("what an ACME server gave cannot be shared", "of", f, "error", err)
		}
		s.mu.Lock()
		delete(s.late, f)
		s.mu.Unlock()
	}
	return true
}

// Delete implements certmagic.Storage.
func (s *shared) Delete(ctx context.Context, key string) error {
	s.mu.Lock()
	delete(s.staged, path.Dir(key))
	s.mu.Unlock()
	_, err := s.ask(ctx, rpc.ACMERequest{Op: rpc.ACMEDelete, Key: key})
	if alone(err) {
		err = nil
	}
	return errors.Join(said(err), s.local.Delete(ctx, key))
}

// entries are what is kept of a key and below it.
func (s *shared) entries(ctx context.Context, key string) (list []rpc.ACMEEntry, local bool, err error) {
	reply, err := s.ask(ctx, rpc.ACMERequest{Op: rpc.ACMEList, Key: key})
	if err != nil && (alone(err) || away(err)) {
		return nil, true, nil
	}
	return reply.Entries, false, said(err)
}

// Exists implements certmagic.Storage.
func (s *shared) Exists(ctx context.Context, key string) bool {
	_, err := s.Stat(ctx, key)
	return err == nil
}

// Stat implements certmagic.Storage.
func (s *shared) Stat(ctx context.Context, key string) (certmagic.KeyInfo, error) {
	list, local, err := s.entries(ctx, key)
	switch {
	case err != nil:
		return certmagic.KeyInfo{}, err
	case local || len(list) == 0: // what is here alone is taken over when it is loaded
		return s.local.Stat(ctx, key)
	}
	info := certmagic.KeyInfo{Key: key}
	for _, e := range list {
		if e.Modified.After(info.Modified) {
			info.Modified = e.Modified
		}
		if e.Key == key {
			info.IsTerminal, info.Size = true, int64(e.Size)
		}
	}
	return info, nil
}

// List implements certmagic.Storage.
func (s *shared) List(ctx context.Context, prefix string, recursive bool) ([]string, error) {
	list, local, err := s.entries(ctx, prefix)
	if err != nil {
		return nil, err
	}
	if local || len(list) == 0 {
		return s.local.List(ctx, prefix, recursive)
	}
	var keys []string
	for _, e := range list {
		rest, ok := strings.CutPrefix(e.Key, prefix+"/")
		if !ok {
			continue
		}
		if first, _, deeper := strings.Cut(rest, "/"); deeper && !recursive {
			rest = first
		}
		if k := prefix + "/" + rest; !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	return keys, nil
}

// Lock implements certmagic.Storage: it waits, also for the cluster.
func (s *shared) Lock(ctx context.Context, name string) error {
	for {
		ok, err := s.try(ctx, name)
		if ok || err != nil && !away(err) {
			return said(err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.ctx.Done():
			return s.ctx.Err()
		case <-time.After(lockAgain):
		}
	}
}

// TryLock implements certmagic.TryLocker.
func (s *shared) TryLock(ctx context.Context, name string) (bool, error) {
	ok, err := s.try(ctx, name)
	return ok, said(err)
}

func (s *shared) try(ctx context.Context, name string) (bool, error) {
	var id [16]byte
	_, _ = rand.Read(id[:]) // it ends the program rather than fail
	l := &lease{owner: hex.EncodeToString(id[:])}
	q := rpc.ACMERequest{Op: rpc.ACMELock, Key: name, Owner: l.owner}
	reply, err := s.ask(ctx, q)
	switch {
	case alone(err):
		if err := s.local.Lock(ctx, name); err != nil {
			return false, err
		}
	case err != nil || !reply.Held:
		return false, err
	default:
		var of context.Context
		of, l.end = context.WithCancel(s.ctx)
		s.leases.Go(func() { s.renew(of, q, max(reply.Lease, 3*lockAgain)/3) })
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[name] = l
	return true, nil
}

// renew extends a lease until ctx ends.
func (s *shared) renew(ctx context.Context, q rpc.ACMERequest, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if reply, err := s.ask(ctx, q); ctx.Err() == nil && (err != nil || !reply.Held) {
			s.log.Warn("a lock of the gateways was not renewed, another may do the same work", "lock", q.Key, "error",
				err)
		}
	}
}

// Unlock implements certmagic.Storage. A cluster that is away learns it by the end of
// the lease.
func (s *shared) Unlock(ctx context.Context, name string) error {
	s.mu.Lock()
	l := s.held[name]
	delete(s.held, name)
	s.mu.Unlock()
	switch {
	case l == nil:
		return fmt.Errorf("lock %s is not held", name)
	case l.end == nil:
		return s.local.Unlock(ctx, name)
	}
	l.end()
	_, err := s.ask(ctx, rpc.ACMERequest{Op: rpc.ACMEUnlock, Key: name, Owner: l.owner})
	if err != nil && away(err) {
		return nil // see above
	}
	return said(err)
}

// said is an error of the cluster as a sentence within another.
func said(err error) error {
	var p *wire.Problem
	switch {
	case err == nil:
		return nil
	case errors.As(err, &p) && p.Status != 0:
		return fmt.Errorf("%s: %s (%s)", p.Title, p.Detail, p.Remedy)
	}
	return fmt.Errorf("the cluster, with which gateways share certificates, does not answer: %w", err)
}
