package upgrader

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/atomicfile/statefile"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/objects/remote"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/pki/programsig"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Engine is the one of the worker.
type Engine interface {
	// Upgrade lets it hand over to another program.
	Upgrade(ctx context.Context, q engineapi.EngineUpgrade) (engineapi.EngineUpgraded, error)
}

// Upgrades says which programs a cluster may bring; the zero value is none.
type Upgrades struct {
	// Any: whatever the cluster names. Else it must be signed by one of Keys.
	Any  bool
	Keys []ed25519.PublicKey
}

// check refuses a program that may not be brought.
func (u *Upgrades) check(p *wire.Program) error {
	switch {
	case u.Any:
		return nil
	case len(u.Keys) == 0:
		return errors.New("its operator does not let the cluster upgrade it (verge worker --upgrades)")
	}
	return programsig.Verify(u.Keys, p)
}

// Pace of fetching a program again that did not come as a whole.
const (
	fetchTries = 5
	fetchPause = 2 * time.Second
)

// errNotBrought: the program did not come. Another time it may.
var errNotBrought = errors.New("the program was not brought")

// Upgrader lets the worker become what its cluster says.
type Upgrader struct {
	dir string
	may Upgrades
	log *slog.Logger
	// Succeed ends the agent so that another program goes on. It is set before Run.
	Succeed func(*Succession)
	todo    chan rpc.UpgradeAsk // one at a time
	proved  chan struct{}       // closed when the cluster has answered a new agent

	mu     sync.Mutex // guards below
	p      programs
	trying bool   // this agent is new and has not proved itself
	doing  string // what the try that goes on does, for people
	busy   bool   // one is in todo or worked on
}

// Superseded notes that another program could not go on in the place of this one, in the
// worker's folder dir, which the caller has locked: what runs goes on.
func Superseded(dir string, why error) error {
	p, err := readPrograms(dir)
	if err != nil {
		return err
	}
	if p.State == rpc.TryGoesOn {
		p.failed("the program cannot be executed: "+why.Error(), false)
	} else {
		p.Runs, p.RunsKey, p.Before, p.Owed = nil, "", nil, true
	}
	return p.write(dir)
}

// Open settles what this process is to be: an error of type *Succession says that
// another program is to go on.
func Open(dir string, may Upgrades, marker string, log *slog.Logger) (*Upgrader, error) {
	dir, err := filepath.Abs(dir) // an engine wants to know where its program is wherever it works
	if err != nil {
		return nil, err
	}
	u := &Upgrader{dir: dir, may: may, log: log, todo: make(chan rpc.UpgradeAsk, 1), proved: make(chan struct{}),
		Succeed: func(*Succession) {}}
	u.p, err = readPrograms(dir)
	if newer := (*statefile.NewerError)(nil); errors.As(err, &newer) {
		return nil, err // which program is to go on is not this one's to decide
	}
	if err != nil {
		aside := filepath.Join(dir, programsFile) + ".damaged"
		log.Error("the record of programs from the cluster cannot be read: it is moved aside, and the installed program continues",
			"to", aside, "error", err)
		if err := os.Rename(filepath.Join(dir, programsFile), aside); err != nil {
			return nil, err
		}
		return u, nil
	}
	if u.p.State != rpc.TryGoesOn && !u.p.Again {
		u.p.tidy(dir, log) // of a fetch that was broken off, which begins anew if it is asked for
	}
	if u.p.Key == "" {
		return u, nil
	}
	path, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	self, err := lookAt(path)
	if err != nil {
		log.Warn("this program is not where it was started from", "error", err)
	}
	was := u.p
	next, trying := u.p.begun(self, marker, checksum, log)
	u.trying = trying
	if u.p != was {
		if err := u.p.write(dir); err != nil {
			return nil, err
		}
	}
	if next != nil {
		return nil, next
	}
	return u, nil
}

// Ask says how far a try is, and begins it if nobody has heard of it.
func (u *Upgrader) Ask(q *rpc.UpgradeAsk, inProcess bool, engine string) rpc.UpgradeTry {
	u.mu.Lock()
	defer u.mu.Unlock()
	try := rpc.UpgradeTry{V: wire.Version, Key: q.Key, Agent: obs.Version(), Engine: engine}
	refuse := func(why string) rpc.UpgradeTry {
		try.State, try.Why = rpc.TryRefused, why
		return try
	}
	switch {
	case q.Key == "" || len(q.Key) > 100 || q.Undo == "" && q.Program == nil:
		return refuse("the question cannot be understood: upgrade it with verge worker upgrade")
	case inProcess:
		return refuse("it is part of another process (verge dev)")
	case q.Key == u.p.Key:
		if try.State, try.Why, try.Again = u.p.State, u.p.Why, u.p.Again; try.State == rpc.TryGoesOn {
			try.Why = u.doing
			if u.trying {
				try.Why = "the new agent has started, and waits for an answer of the cluster"
			}
		}
		return try
	case q.Undo != "" && q.Undo != u.p.RunsKey && !(u.busy || u.p.State == rpc.TryGoesOn):
		try.State, try.Why = rpc.TryDone, "nothing of it is here"
		return try
	case u.busy || u.p.State == rpc.TryGoesOn:
		try.State, try.Why = rpc.TryGoesOn, "another upgrade is running here"
		return try
	}
	if q.Undo == "" {
		if err := q.Program.Check(); err != nil {
			return refuse(err.Error())
		}
		if err := u.may.check(q.Program); err != nil {
			return refuse(err.Error())
		}
	}
	u.busy, u.doing = true, "it begins"
	u.todo <- *q // there is room: nobody is busy
	try.State, try.Why = rpc.TryGoesOn, u.doing
	return try
}

// does says what the try that goes on does.
func (u *Upgrader) does(what string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.doing = what
}

// change changes what is stored; what could not be stored has not changed.
func (u *Upgrader) change(f func(p *programs)) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	next := u.p
	f(&next)
	if err := next.write(u.dir); err != nil {
		return err
	}
	u.p = next
	return nil
}

// Answered hears that the cluster has answered: a new agent has proved itself.
func (u *Upgrader) Answered() {
	if u == nil {
		return
	}
	u.mu.Lock()
	trying := u.trying
	u.mu.Unlock()
	if !trying {
		return
	}
	if err := u.change((*programs).proved); err != nil {
		u.log.Error("the new program works, but that cannot be stored; it is tried again with the next answer", "error", err)
		return
	}
	u.mu.Lock()
	u.trying = false
	u.p.tidy(u.dir, u.log)
	u.mu.Unlock()
	close(u.proved)
	u.log.Info("this worker is upgraded: the cluster answers the new agent", "version", obs.Version())
}

// Run works on tries until ctx is done. engine is the one of this worker.
func (u *Upgrader) Run(ctx context.Context, engine Engine, above *remote.Remote) {
	u.settleEngine(ctx, engine)
	u.mu.Lock()
	trying := u.trying
	u.mu.Unlock()
	if trying {
		u.watchTrial(ctx)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case q := <-u.todo:
			if err := u.try(ctx, &q, engine, above); err != nil && ctx.Err() == nil {
				u.log.Error("this worker stays as it was", "error", err)
				again := errors.Is(err, errNotBrought)
				if werr := u.change(func(p *programs) {
					p.Key, p.State, p.Why, p.Again, p.To, p.Undo = q.Key, rpc.TryFailed, err.Error(), again, nil, false
				}); werr != nil {
					u.log.Error("that cannot be stored", "error", werr)
				}
			}
			u.mu.Lock()
			u.busy = false
			u.mu.Unlock()
		}
	}
}

// settleEngine lets the engine be what this agent is, where it may be something else.
func (u *Upgrader) settleEngine(ctx context.Context, engine Engine) {
	u.mu.Lock()
	owed := u.p.Owed && !u.trying
	u.mu.Unlock()
	if !owed {
		return
	}
	self, err := os.Executable()
	if err == nil {
		_, err = engine.Upgrade(ctx, engineapi.EngineUpgrade{Program: self, Drain: int64(wire.DefaultDrain)})
	}
	if err != nil {
		u.log.Error("the engine does not go back with its agent; the next start of the agent tries it again, as does verge worker upgrade",
			"error", err)
		return
	}
	if err := u.change(func(p *programs) { p.Owed = false }); err != nil {
		u.log.Warn("the engine has gone back, but that cannot be stored", "error", err)
	}
}

// watchTrial goes back where the cluster does not answer this agent, which is new.
func (u *Upgrader) watchTrial(ctx context.Context) {
	t := time.NewTimer(wire.TrialWithin)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return
	case <-u.proved:
		return
	case <-t.C:
	}
	why := fmt.Sprintf("no cluster has answered the new agent within %s", wire.TrialWithin)
	u.log.Error("this worker goes back to the program before", "why", why)
	if err := u.change(func(p *programs) { p.failed(why, true) }); err != nil {
		u.log.Error("noting that", "error", err) // the next start does the same
	}
	u.mu.Lock()
	next := &Succession{Program: u.p.path(u.p.Runs), key: u.p.Key}
	u.mu.Unlock()
	u.Succeed(next)
}

// try brings a program, lets the engine be it, and lets the agent be it. An error means
// that nothing has changed.
func (u *Upgrader) try(ctx context.Context, q *rpc.UpgradeAsk, engine Engine, above *remote.Remote) error {
	u.mu.Lock()
	p := u.p
	u.mu.Unlock()
	if p.Runs == nil {
		path, err := os.Executable()
		if err != nil {
			return fmt.Errorf("finding this program: %w", err)
		}
		if p.Base, err = lookAt(path); err != nil {
			return fmt.Errorf("this program is not where it was started from, so there would be no way back: %w", err)
		}
	}
	to := p.Before
	if q.Undo == "" {
		var err error
		if to, err = u.fetch(ctx, q.Program, above); err != nil {
			return fmt.Errorf("%w: %w", errNotBrought, err)
		}
	}
	order := engineapi.EngineUpgrade{Program: p.path(to), Drain: q.Drain}
	if to != nil {
		order.SHA256 = to.SHA256
	}
	if err := u.change(func(n *programs) {
		n.Base, n.Key, n.State, n.Why, n.To, n.Undo, n.Owed = p.Base, q.Key, rpc.TryGoesOn, "", to, q.Undo != "", true
	}); err != nil {
		return err
	}
	u.does("its engine hands over")
	done, err := engine.Upgrade(context.WithoutCancel(ctx), order) // it is not given up half-way
	if err != nil {
		u.does("its engine has not handed over")
		// It goes on, or its program before does.
		return errors.Join(fmt.Errorf("the engine: %w", err), u.change(func(n *programs) { n.Owed = false }))
	}
	u.log.Info("the engine has handed over, the agent follows", "from", done.From, "to", done.To, "instances",
		done.Instances, "connections", done.Connections)
	u.does("its agent starts anew")
	u.Succeed(&Succession{Program: order.Program, key: q.Key})
	<-ctx.Done()
	return nil
}

// fetch brings a program here, unless it is here already.
func (u *Upgrader) fetch(ctx context.Context, want *wire.Program, above *remote.Remote) (*program, error) {
	dir := filepath.Join(u.dir, programsDir, want.SHA256)
	path := filepath.Join(dir, programName)
	p := &program{Path: path, SHA256: want.SHA256}
	if is, err := checksum(path); err == nil && is == want.SHA256 {
		return p, nil
	}
	if err := atomicfile.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := hasRoom(dir, want.Size); err != nil {
		return nil, err
	}
	var err error
	for n := range fetchTries {
		u.does(fmt.Sprintf("it fetches the program, %d MB", want.Size>>20))
		if err = fetchOnce(ctx, want, above, path); err == nil {
			return p, nil
		}
		u.log.Warn("fetching the program to be upgraded to", "error", err)
		if ctx.Err() != nil || n == fetchTries-1 {
			break
		}
		u.does("it fetches the program again: " + err.Error())
		select {
		case <-ctx.Done():
		case <-time.After(fetchPause << n):
		}
	}
	return nil, errors.Join(err, os.RemoveAll(dir))
}

// hasRoom refuses what would fill the disk: what runs here needs some, too.
func hasRoom(dir string, size int64) error {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return err
	}
	if free := int64(fs.Bavail) * int64(fs.Bsize); free < 2*size { //nolint:unconvert // the types differ by system
		return fmt.Errorf("the disk of %s has %d MB left, and the program has %d MB: twice that must be free", dir,
			free>>20, size>>20)
	}
	return nil
}

// fetchOnce writes what the cluster has of a program, if it is what was named.
func fetchOnce(ctx context.Context, want *wire.Program, above *remote.Remote, path string) (err error) {
	got, err := above.Get(ctx, wire.ProgramsNamespace, want.Object(), "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, got.Body.Close()) }()
	tmp, err := os.OpenFile(path+".tmp", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o700)
	if err != nil {
		return err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(tmp, sum), io.LimitReader(got.Body, want.Size+1))
	if err == nil {
		err = tmp.Sync()
	}
	if err = errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	if is := hex.EncodeToString(sum.Sum(nil)); n != want.Size || is != want.SHA256 {
		return fmt.Errorf("what came has the SHA-256 %s and at least %d bytes, and not %s and %d", is, n,
			want.SHA256, want.Size)
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	return atomicfile.SyncDir(filepath.Dir(path))
}

func checksum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	_, err = io.Copy(h, io.LimitReader(f, wire.MaxProgramBytes+1))
	return hex.EncodeToString(h.Sum(nil)), errors.Join(err, f.Close())
}
