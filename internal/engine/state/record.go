package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/atomicfile/statefile"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/orders"
	"github.com/verge-edge/verge/internal/overlay"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/wire"
)

const (
	// RecordName is the file of a Record, in the directory of its instance.
	RecordName = "state.json"
	// MaxOrderBytes of a set of orders, on the wire.
	MaxOrderBytes = orders.Max
	maxRecord     = 4 << 20 // one order with its peers
)

// RecordKind is the kind of file that a Record is, see package statefile.
var RecordKind = &statefile.Kind{What: "the state of an instance", Max: maxRecord, Version: wire.Version}

// Record is what an engine remembers about one instance, so that its successor can continue.
type Record struct {
	V int `json:"v"`
	// Order that the current incarnation was started from.
	Order wire.Order `json:"order"`
	Phase wire.Phase `json:"phase"`
	Why   string     `json:"why,omitempty"`
	// Cause is Why where decisions depend on it.
	Cause wire.Cause `json:"cause,omitempty"`
	// Boot in which this was written: in another one no task is left.
	Boot string `json:"boot"`
	// Starting is set on disk before a driver is called, and cleared together
	// with its answer. Found set, a task may exist that Handle does not name.
	Starting bool            `json:"starting,omitempty"`
	Handle   *runtime.Handle `json:"handle,omitempty"`
	// Up is set once the task that Handle names has passed its startup check, or
	// needed none.
	Up bool `json:"up,omitempty"`
	// Placed are the paths below the working directory that were put there by us, of
	// an earlier incarnation too.
	Placed []string `json:"placed,omitempty"`
	// Starts of this incarnation, failed ones too.
	Starts int `json:"starts,omitempty"`
	// Woken are those of them that were no restarts: it had slept. StartUp is how long
	// it took lately until it answered.
	Woken   int           `json:"woken,omitempty"`
	StartUp time.Duration `json:"start_up,omitempty"`
	// Failures in a row without a calm run between them.
	Failures int `json:"failures,omitempty"`
	// Wait before the next start. It is a span and not a time, because clocks of
	// machines that come back from a power cut are wrong; a successor waits again.
	Wait  time.Duration  `json:"wait,omitempty"`
	Ports map[string]int `json:"ports,omitempty"`
	// User of its own that it runs as; 0: none.
	User uint32 `json:"user,omitempty"`
	// Net is its place in the service network.
	Net      *overlay.Place `json:"net,omitempty"`
	LastExit *wire.Exit     `json:"last_exit,omitempty"`
	// Secrets are the values that the task has; not changed once they are here.
	Secrets []wire.SecretHeld `json:"secrets,omitempty"`
	Started time.Time         `json:"started,omitzero"`
	// Clock is Started by the clock that runs since the boot and that nobody sets; 0 if there is
	// none.
	Clock time.Duration `json:"clock,omitempty"`
}

// Restarts in place of the current incarnation.
func (r *Record) Restarts() int { return max(r.Starts-1-r.Woken, 0) }

// Attempt is the 0-based number of the last start.
func (r *Record) Attempt() int { return max(r.Starts-1, 0) }

// ErrEmpty is an empty record: the power failed while it was written.
var ErrEmpty = errors.New("it is empty")

// ErrDamaged is wrapped where a file is there but cannot be used.
var ErrDamaged = errors.New("damaged")

// ReadJSON reads a file into v. A file that is there but holds something else is
// errDamaged, and errEmpty if it holds nothing; one of a newer form is neither.
func ReadJSON(kind *statefile.Kind, path string, v any) error {
	_, err := kind.Read(path, v)
	if err == nil || !statefile.Damaged(err) {
		return err
	}
	if st, serr := os.Stat(path); serr == nil && st.Size() == 0 {
		err = ErrEmpty
	}
	return fmt.Errorf("%s is %w: %w", path, ErrDamaged, err)
}

// Next is the record of the next incarnation, which counts anew: it has what the one before
// has left in its directory, its user, and what is known of the time that it takes to start.
func (r *Record) Next() Record {
	return Record{Placed: r.Placed, StartUp: r.StartUp, User: r.User}
}

// Write replaces the file of the record. What it tells of a task that is there is
// nothing after a power cut, so that does not wait for the disk: an instance would
// cost four syncs more at its start. Neither does what sleeps: whatever is read of its
// earlier days, it sleeps. Everything else does.
func (r *Record) Write(path string) error {
	sleeps := r.Order.Sleep != nil && r.Phase == wire.PhasePending && r.Wait == 0
	if (r.Starting || r.Handle != nil || sleeps) && len(r.Placed) == 0 {
		b, err := json.Marshal(r)
		if err != nil {
			return fmt.Errorf("encode %s: %w", RecordName, err)
		}
		return RecordKind.Put(path, b, atomicfile.Replace)
	}
	return RecordKind.Write(path, r)
}

// ReadRecord reads the record of the instance whose directory is dir.
func ReadRecord(dir string, id wire.InstanceID) (Record, error) {
	var r Record
	path := filepath.Join(dir, RecordName)
	if err := ReadJSON(RecordKind, path, &r); err != nil {
		return Record{}, err
	}
	if r.Order.ID != id {
		return Record{}, fmt.Errorf("%s is %w: it is about %q", path, ErrDamaged, r.Order.ID)
	}
	if r.Order.Spec == nil && (r.Handle != nil || r.Starting) {
		return Record{}, fmt.Errorf("%s is %w: it names a process but no service", path, ErrDamaged)
	}
	return r, nil
}

// ReadOrders reads the stored orders. A missing file is os.ErrNotExist.
func ReadOrders(s *orders.Store) (engineapi.EngineOrders, error) {
	o, err := s.Load()
	if errors.Is(err, orders.ErrDamaged) {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err != nil {
		return engineapi.EngineOrders{}, err
	}
	if err := CheckOrders(&o); err != nil {
		return engineapi.EngineOrders{}, fmt.Errorf("%s is %w: %w", s.Path(), ErrDamaged, err)
	}
	return o, nil
}

// CheckOrders refuses orders that cannot be acted on as a whole. Ids become
// names of directories, so they must be what they claim to be.
func CheckOrders(o *engineapi.EngineOrders) error {
	if err := wire.CheckVersion("orders", o.V); err != nil {
		return err
	}
	seen := make(map[wire.InstanceID]bool, len(o.Orders))
	for i := range o.Orders {
		order := &o.Orders[i]
		if !IsLabel(order.App) || !IsLabel(order.Service) || order.Ordinal < 0 ||
			order.ID != order.App+"."+order.Service+"."+strconv.Itoa(order.Ordinal) {
			return fmt.Errorf("order %d: %q is not the id of ordinal %d of service %q of application %q",
				i, order.ID, order.Ordinal, order.Service, order.App)
		}
		if seen[order.ID] {
			return fmt.Errorf("order %d: %s is ordered twice", i, order.ID)
		}
		seen[order.ID] = true
	}
	return nil
}

// MoveAside renames a damaged file so that it is kept for whoever looks into
// it and does not stand in the way, and returns its new name.
func MoveAside(path string) (string, error) {
	for n := 1; n < 1000; n++ {
		to := fmt.Sprintf("%s.corrupt-%d", path, n)
		if _, err := os.Lstat(to); err == nil {
			continue
		}
		if err := os.Rename(path, to); err != nil {
			return "", fmt.Errorf("move %s aside: %w", path, err)
		}
		return to, atomicfile.SyncDir(filepath.Dir(path))
	}
	return "", fmt.Errorf("move %s aside: a thousand damaged copies are there already; remove them", path)
}
