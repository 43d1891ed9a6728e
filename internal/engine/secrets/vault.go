package secrets

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"sync"

	"github.com/verge-edge/verge/internal/seal"
	"github.com/verge-edge/verge/internal/wire"
)

// Vault has the secrets of the orders, sealed for this worker. One is opened when an instance
// starts that needs it, and at no other time.
type Vault struct {
	dir string // with the key of the worker

	mu     sync.Mutex // guards below
	sealed map[string]wire.SealedSecret
}

// New is an empty vault; dir has the key of the worker.
func New(dir string) *Vault { return &Vault{dir: dir} }

// Set takes over the secrets of orders. It reports whether any has changed.
func (v *Vault) Set(list []wire.SealedSecret) (changed bool) {
	next := make(map[string]wire.SealedSecret, len(list))
	for _, s := range list {
		next[s.ID()] = s
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	changed = !reflect.DeepEqual(v.sealed, next)
	v.sealed = next
	return changed
}

// Versions are the versions of secrets of a namespace, by name.
func (v *Vault) Versions(namespace string, names []string) map[string]string {
	out := make(map[string]string, len(names))
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, name := range names {
		if s, ok := v.sealed[wire.SecretID(namespace, name)]; ok {
			out[name] = s.Version
		}
	}
	return out
}

// ErrNoKey is wrapped by errors that are not about a secret: its key cannot be read now, because
// of exhausted descriptors or a failing disk.
var ErrNoKey = errors.New("this worker cannot open secrets")

// Values are values of secrets, by their names.
type Values map[string][]byte

// OpenOrder opens the secrets that an order needs. With an error, which names the first that
// cannot be opened and why, it returns the others.
func (v *Vault) OpenOrder(o *wire.Order) (Values, error) {
	return v.OpenAll(wire.OrderNamespace(o), o.Spec.Secrets())
}

// OpenAll is OpenOrder for secrets of a namespace by name.
func (v *Vault) OpenAll(namespace string, names []string) (Values, error) {
	if len(names) == 0 {
		return nil, nil
	}
	key, err := seal.Load(v.dir)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoKey, err)
	}
	out := make(Values, len(names))
	var first error
	for _, name := range names {
		v.mu.Lock()
		s, ok := v.sealed[wire.SecretID(namespace, name)]
		v.mu.Unlock()
		value, err := []byte(nil), errors.New(wire.NoSecret(namespace, name))
		switch {
		case ok && s.Key != key.ID():
			err = fmt.Errorf("secret %s of namespace %s was sealed for a key that this worker had before; it comes "+
				"anew when its cluster answers", name, namespace)
		case ok:
			if value, err = key.Open(s.Purpose(), s.Sealed); err != nil {
				err = fmt.Errorf("secret %s of namespace %s cannot be opened: %w; set it again: verge secret set %s "+
					"--namespace %s --from-file FILE", name, namespace, err, name, namespace)
			}
		}
		if err != nil && first == nil {
			first = err
		}
		if err == nil {
			out[name] = value
		}
	}
	return out, first
}

// Fill adds the variables of an order that are secrets to those of an instance, and returns their
// values, which must not appear in any text for people.
func (s Values) Fill(o *wire.Order, vars map[string]string) (hidden [][]byte, err error) {
	for variable, name := range o.Spec.EnvSecrets {
		value, ok := s[name]
		if !ok {
			continue
		}
		if bytes.IndexByte(value, 0) >= 0 {
			return nil, fmt.Errorf("secret %s has a NUL byte in it and cannot be the variable %s; give it to the "+
				"program as a file", name, variable)
		}
		vars[variable] = string(value)
		hidden = append(hidden, value)
	}
	return hidden, nil
}

// Version implements certs.Secrets.
func (v *Vault) Version(namespace, name string) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.sealed[wire.SecretID(namespace, name)].Version
}

// Open implements certs.Secrets.
func (v *Vault) Open(namespace, name string) ([]byte, error) {
	values, err := v.OpenAll(namespace, []string{name})
	return values[name], err
}
