package wire

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/verge-edge/verge/api"
)

// Bounds of secrets.
const (
	MaxSecretBytes = 64 << 10 // of one value
	MaxSecrets     = 1000     // of one namespace
)

// SealedSecret is the value of a secret, sealed so that only the holder of one key can read it
// (package seal).
type SealedSecret struct {
	V         int    `json:"v"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Version names the value: each value has another version. Versions have no order.
	Version string `json:"version"`
	// Key is the id of the key that it is sealed for.
	Key string `json:"key"`
	// Sealed is left out where it is not needed, as in a model.
	Sealed []byte `json:"sealed,omitempty"`
}

// ID of the secret: "<namespace>.<name>". Both are DNS labels.
func (s *SealedSecret) ID() string { return SecretID(s.Namespace, s.Name) }

// SecretID is the ID of a secret.
func SecretID(namespace, name string) string { return namespace + "." + name }

// Purpose binds the sealed value to this version of this secret.
func (s *SealedSecret) Purpose() string {
	return "verge secret\x00" + s.Namespace + "\x00" + s.Name + "\x00" + s.Version
}

// Fits says whether s is the given version, sealed for the given key.
func (s *SealedSecret) Fits(version, key string) bool {
	return s != nil && s.Version == version && s.Key == key
}

// SecretHeld says which value of a secret an instance has.
type SecretHeld struct {
	Name string `json:"name"`
	// Version of the value in its files or, if it is only a variable, of the one it was started
	// with; "" if not known. At is since when.
	Version string    `json:"version,omitempty"`
	At      time.Time `json:"at,omitzero"`
	// Next is the version of a newer value that takes effect at its next start: in its
	// variables, or in its files if they could not be replaced, for the reason in Why. "" for
	// none.
	Next string `json:"next,omitempty"`
	Why  string `json:"why,omitempty"`
}

// SecretNews says in words which new values an instance got without a restart.
func SecretNews(id InstanceID, was, is []SecretHeld) (news []string) {
	for _, h := range is {
		k := slices.IndexFunc(was, func(w SecretHeld) bool { return w.Name == h.Name })
		if k < 0 || was[k].Version == h.Version && was[k].Next == h.Next && was[k].Why == h.Why {
			continue
		}
		switch {
		case h.Why != "":
			news = append(news, fmt.Sprintf("the new value of secret %s could not be put into its files, which have the one before: %s", h.Name, h.Why))
		case was[k].Version != h.Version && h.Next != "":
			news = append(news, fmt.Sprintf("its files have the new value of secret %s; its variables get it at its next start: verge restart instance/%s", h.Name, id))
		case h.Next != "":
			news = append(news, fmt.Sprintf("there is a new value of secret %s, which is a variable and counts from its next start on: verge restart instance/%s", h.Name, id))
		case was[k].Next == "" || was[k].Why != "":
			news = append(news, fmt.Sprintf("its files have the new value of secret %s", h.Name))
		}
	}
	return news
}

// ExpiresSoon is how long before its expiry a gateway's certificate is a problem: those from
// authorities are renewed a month before.
const ExpiresSoon = 14 * 24 * time.Hour

// NoSecret says that a secret does not exist, and what to do.
func NoSecret(namespace, name string) string {
	return fmt.Sprintf("secret %s of namespace %s is not there: verge secret set %s --namespace %s --from-file FILE", name, namespace, name, namespace)
}

// ShareNamespace returns the namespace of a share, even from a root without namespaces.
func ShareNamespace(s *Share) string { return cmp.Or(s.Namespace, api.DefaultNamespace) }

// OrderNamespace returns the namespace of an order, even from a cluster without namespaces.
func OrderNamespace(o *Order) string { return cmp.Or(o.Namespace, api.DefaultNamespace) }
