package engine

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
	"github.com/verge-edge/verge/internal/orders"
	"github.com/verge-edge/verge/internal/overlay"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/wire"
)

// Files of an engine, below its directory.
const (
	lockFile      = "engine.lock"
	routerFile    = "router.json"
	instancesDir  = "instances"
	recordFile    = "state.json"
	maxOrderBytes = orders.Max // of a set of orders, on the wire
	maxRecord     = 4 << 20    // one order with its peers
	maxConfig     = 1 << 20
)

// Kinds of files, see package statefile.
var (
	recordKind  = &statefile.Kind{What: "the state of an instance", Max: maxRecord, Version: wire.Version}
	configKind  = &statefile.Kind{What: "the engine's configuration", Max: maxConfig, Version: wire.Version}
	objectsKind = &statefile.Kind{What: "what instances were told of objects", Max: maxConfig, Version: wire.Version}
)

// record is what an engine remembers about one instance, so that its successor
// can go on where it was.
type record struct {
	V int `json:"v"`
	// Order that the current incarnation was started from.
	Order wire.Order `json:"order"`
	Phase wire.Phase `json:"phase"`
	Why   string     `json:"why,omitempty"`
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
	// User of its own that it runs as; 0 is none.
	User uint32 `json:"user,omitempty"`
	// Net is its place in the service network.
	Net      *overlay.Place `json:"net,omitempty"`
	LastExit *wire.Exit     `json:"last_exit,omitempty"`
	// Secrets are the values that the task has; not changed once they are here.
	Secrets []wire.SecretHeld `json:"secrets,omitempty"`
	Started time.Time         `json:"started,omitzero"`
	// Clock is Started by the clock that goes since the boot and that nobody sets; 0
	// where there is none.
	Clock time.Duration `json:"clock,omitempty"`
}

// restarts in place of the current incarnation.
func (r *record) restarts() int { return max(r.Starts-1-r.Woken, 0) }

// attempt is the 0-based number of the last start.
func (r *record) attempt() int { return max(r.Starts-1, 0) }

// errEmpty is a record of nothing: the power went while it was written.
var errEmpty = errors.New("it is empty")

// errDamaged is wrapped where a file is there but cannot be used.
var errDamaged = errors.New("damaged")

// readJSON reads a file into v. A file that is there but holds something else is
// errDamaged, and errEmpty if it holds nothing; one of a newer form is neither.
func readJSON(kind *statefile.Kind, path string, v any) error {
	_, err := kind.Read(path, v)
	if err == nil || !statefile.Damaged(err) {
		return err
	}
	if st, serr := os.Stat(path); serr == nil && st.Size() == 0 {
		err = errEmpty
	}
	return fmt.Errorf("%s is %w: %w", path, errDamaged, err)
}

// write replaces the file of the record. What it tells of a task that is there is
// nothing after a power cut, so that does not wait for the disk: an instance would
// cost four syncs more at its start. Neither does what sleeps: whatever is read of its
// earlier days, it sleeps. Everything else does.
func (r *record) write(path string) error {
	sleeps := r.Order.Sleep != nil && r.Phase == wire.PhasePending && r.Wait == 0
	if (r.Starting || r.Handle != nil || sleeps) && len(r.Placed) == 0 {
		b, err := json.Marshal(r)
		if err != nil {
			return fmt.Errorf("encode %s: %w", recordFile, err)
		}
		return recordKind.Put(path, b, atomicfile.Replace)
	}
	return recordKind.Write(path, r)
}

// readRecord reads the record of the instance whose directory is dir.
func readRecord(dir string, id wire.InstanceID) (record, error) {
	var r record
	path := filepath.Join(dir, recordFile)
	if err := readJSON(recordKind, path, &r); err != nil {
		return record{}, err
	}
	if r.Order.ID != id {
		return record{}, fmt.Errorf("%s is %w: it is about %q", path, errDamaged, r.Order.ID)
	}
	if r.Order.Spec == nil && (r.Handle != nil || r.Starting) {
		return record{}, fmt.Errorf("%s is %w: it names a process but no service", path, errDamaged)
	}
	return r, nil
}

// readOrders reads the stored orders. A missing file is os.ErrNotExist.
func readOrders(s *orders.Store) (wire.EngineOrders, error) {
	o, err := s.Load()
	if errors.Is(err, orders.ErrDamaged) {
		err = fmt.Errorf("%w: %w", errDamaged, err)
	}
	if err != nil {
		return wire.EngineOrders{}, err
	}
	if err := checkOrders(&o); err != nil {
		return wire.EngineOrders{}, fmt.Errorf("%s is %w: %w", s.Path(), errDamaged, err)
	}
	return o, nil
}

// checkOrders refuses orders that cannot be acted on as a whole. Ids become
// names of directories, so they must be what they claim to be.
func checkOrders(o *wire.EngineOrders) error {
	if err := wire.CheckVersion("orders", o.V); err != nil {
		return err
	}
	seen := make(map[wire.InstanceID]bool, len(o.Orders))
	for i := range o.Orders {
		order := &o.Orders[i]
		if !isLabel(order.App) || !isLabel(order.Service) || order.Ordinal < 0 ||
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

// isLabel tells whether s is a DNS label in lower case.
func isLabel(s string) bool {
	if len(s) == 0 || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// moveAside renames a damaged file so that it is kept for whoever looks into
// it and does not stand in the way, and returns its new name.
func moveAside(path string) (string, error) {
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
