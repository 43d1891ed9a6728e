package records

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/wire"
)

// Fate is what becomes of a role that finds a record in its store that it cannot read: one
// that is damaged, or was written by a newer program. The record is left as it is in all
// cases but Again.
type Fate int

const (
	// Stops is not to start. What it would do without it, nobody can take back: it
	// would let in a node whose key does not count any more.
	Stops Fate = iota
	// Holds is to start, answer, and serve what is stored, and to decide and store nothing
	// until the record can be read. Without it, it would end what runs.
	Holds
	// Aside is to go on without it.
	Aside
	// Again is to go on and make it anew from others.
	Again
)

// Unread is a record that cannot be read.
type Unread struct {
	Key  string
	Fate Fate
	Err  error
}

// errNewer is wrapped by the errors of records that a newer program wrote.
var errNewer = errors.New("a newer program wrote it")

// Newer says whether the error of a record that cannot be read is that a newer program
// wrote it: it is as it should be, and not to be written over.
func Newer(err error) bool { return errors.Is(err, errNewer) }

// String says in words which record it is, what becomes of the role, and what to do.
func (u Unread) String() string {
	then := map[Fate]string{
		Stops: "nothing goes on without it",
		Holds: "until it can be read nothing is decided or stored here, and what runs goes on",
		Aside: "it is left as it is, and all else goes on without it",
		Again: "it is made anew",
	}[u.Fate]
	remedy := "restore a backup of before (verge restore), or drop this record alone (verge records ls --data-dir DIR says what follows)"
	switch {
	case u.Fate == Again:
		return fmt.Sprintf("stored record %s cannot be read (%.200v): %s", u.Key, u.Err, then)
	case errors.Is(u.Err, errNewer):
		remedy = "start the newer program again"
	case u.Fate == Aside:
		remedy = "make again what it is about, restore a backup of before (verge restore), or drop it (verge records ls --data-dir DIR)"
	}
	return fmt.Sprintf("stored record %s cannot be read (%.200v): %s. To mend it, %s", u.Key, u.Err, then, remedy)
}

// Worst puts those first that matter most.
func Worst(list []Unread) []Unread {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b Unread) int { return cmp.Or(cmp.Compare(a.Fate, b.Fate), cmp.Compare(a.Key, b.Key)) })
	return list
}

// saidUnread is how many are named one by one.
const saidUnread = 8

// Words are problems for people: the worst one by one, and how many more there are.
func Words(list []Unread) []string {
	var out []string
	for _, u := range Worst(list) {
		if len(out) == saidUnread {
			return append(out, fmt.Sprintf("and %d more stored records cannot be read", len(list)-saidUnread))
		}
		out = append(out, u.String())
	}
	return out
}

// Stopped is the error of a role that cannot start for what it cannot read; nil if it can.
func Stopped(list []Unread) error {
	var stops []Unread
	for _, u := range list {
		if u.Fate == Stops {
			stops = append(stops, u)
		}
	}
	if len(stops) == 0 {
		return nil
	}
	return errors.New(strings.Join(Words(stops), "; "))
}

// Held is the record for which a role decides and stores nothing, in words; "" if it does.
func Held(list []Unread) string {
	for _, u := range Worst(list) {
		if u.Fate <= Holds {
			return u.String()
		}
	}
	return ""
}

// Among says whether the record of a key is one of list.
func Among(list []Unread, key string) bool {
	return slices.ContainsFunc(list, func(u Unread) bool { return u.Key == key })
}

// Load reads a stored entry into what v points to. What a newer program wrote is an error,
// even if it can be decoded: fields that this one does not know would be lost with the
// next write.
func Load(e bus.Entry, v any) error {
	err := json.Unmarshal(e.Value, v)
	n, has := 0, false
	if err == nil {
		n, has = versionIn(v)
	}
	if !has { // it has none, or is of another form
		var head struct {
			V int `json:"v"`
		}
		if json.Unmarshal(e.Value, &head) == nil {
			n = head.V
		}
	}
	if n > wire.Version {
		return fmt.Errorf("%w: its form is %d, this one reads up to %d", errNewer, n, wire.Version)
	}
	return err
}

// versionIn is the field V of a record.
func versionIn(v any) (n int, has bool) {
	r := reflect.ValueOf(v)
	for r.Kind() == reflect.Pointer && !r.IsNil() {
		r = r.Elem()
	}
	if r.Kind() != reflect.Struct {
		return 0, true // no record with fields
	}
	f := r.FieldByName("V")
	if !f.IsValid() || !f.CanInt() {
		return 0, false
	}
	return int(f.Int()), true
}

// LoadInto adds a stored entry to a map of records. One that cannot be read is left out;
// of a kind that is made anew it is there without content, so that it is written or
// removed like one that is out of date.
func LoadInto[T any](e bus.Entry, into map[string]*T, key string, fate Fate) error {
	v := new(T)
	err := Load(e, v)
	switch {
	case err == nil:
		into[key] = v
	case fate == Again:
		into[key] = new(T)
	}
	return err
}

// codeUnreadable is the code of the problem with which a store on Hold refuses writes.
const codeUnreadable = "records-unreadable"

// Unstored is the problem of a change that a store did not take. look is the remedy if the outcome
// is not known; disk is the one that may be full.
func Unstored(err error, look, disk string) error {
	var p *wire.Problem
	switch {
	case errors.As(err, &p) && p.Code == codeUnreadable:
		return p
	case errors.Is(err, bus.ErrUnknownOutcome):
		return wire.Problemf(503, "outcome-unknown", look, "it is not known whether this was stored", "%v", err)
	}
	return wire.Problemf(507, "not-stored", "free some space or repair "+disk+", then try again",
		"nothing was changed: it could not be stored", "%v", err)
}

// Hold is a store that can be read and not written, and says why.
func Hold(s bus.Store, why string) bus.Store { return &held{s, why} }

type held struct {
	bus.Store
	why string
}

func (h *held) refuse() error {
	return wire.Problemf(503, codeUnreadable, "verge status, which says what to do", "nothing can be changed here now", "%s", h.why)
}

// WriteError implements bus.Store.
func (h *held) WriteError() error { return errors.New("a stored record cannot be read") }

func (h *held) Commit(context.Context, ...bus.Op) (uint64, error) { return 0, h.refuse() }

func (h *held) Put(context.Context, string, []byte) (uint64, error) { return 0, h.refuse() }

func (h *held) CompareAndSwap(context.Context, string, []byte, uint64) (uint64, error) {
	return 0, h.refuse()
}

func (h *held) Delete(context.Context, string) (uint64, error) { return 0, h.refuse() }
