package wire

import (
	"cmp"
	"fmt"
	"time"

	"github.com/verge-edge/verge/api"
)

// Bounds of secrets.
const (
	MaxSecretBytes = 64 << 10 // of one value
	MaxSecrets     = 1000     // of one namespace
)

// SealedSecret is the value of a secret that only the holder of one key can read
// (package seal).
type SealedSecret struct {
	V         int    `json:"v"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Version names the value: another value, another version. Two of them say
	// nothing about which is newer.
	Version string `json:"version"`
	// Key is the id of the key that it is sealed for.
	Key string `json:"key"`
	// Sealed is left out where it does not matter, as in a model.
	Sealed []byte `json:"sealed,omitempty"`
}

// ID of the secret: "<namespace>.<name>". Both are DNS labels.
func (s *SealedSecret) ID() string { return SecretID(s.Namespace, s.Name) }

// SecretID is the ID of a secret.
func SecretID(namespace, name string) string { return namespace + "." + name }

// Purpose is what the value is sealed for: being this version of this secret, and
// nothing else.
func (s *SealedSecret) Purpose() string {
	return "verge secret\x00" + s.Namespace + "\x00" + s.Name + "\x00" + s.Version
}

// Fits says whether s is the given version, sealed for the given key.
func (s *SealedSecret) Fits(version, key string) bool {
	return s != nil && s.Version == version && s.Key == key
}

// Secret is the root's record of a secret, sealed for the root itself.
type Secret struct {
	SealedSecret
	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"`
	// By set this value.
	By string `json:"by,omitempty"`
	// Expires is when the certificate that the value begins with does; zero where it is
	// none.
	Expires time.Time `json:"expires,omitzero"`
}

// SecretView is a secret without its value, which nobody is shown.
type SecretView struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	Created   time.Time `json:"created"`
	Updated   time.Time `json:"updated"`
	By        string    `json:"by,omitempty" doc:"who set the value"`
	// UsedBy are the services that name it: "shop.web".
	UsedBy []string `json:"used_by,omitempty" doc:"services that name it"`
	// Expires is when a certificate that it is does.
	Expires time.Time `json:"expires,omitzero" doc:"when the certificate in it expires, where it is one"`
	// Problem in words; "" if all is well.
	Problem string `json:"problem,omitempty"`
}

// ExpiresSoon is how long before its end a certificate of a gateway is a problem:
// authorities' own are renewed a month before.
const ExpiresSoon = 14 * 24 * time.Hour

// NoSecret says that a secret is not there, and what to do.
func NoSecret(namespace, name string) string {
	return fmt.Sprintf("secret %s of namespace %s is not there: verge secret set %s --namespace %s --from-file FILE", name, namespace, name, namespace)
}

// ShareNamespace is the namespace of a share, also of one by a root that has none.
func ShareNamespace(s *Share) string { return cmp.Or(s.Namespace, api.DefaultNamespace) }

// OrderNamespace is the namespace of an order, also of one by a cluster that has
// none.
func OrderNamespace(o *Order) string { return cmp.Or(o.Namespace, api.DefaultNamespace) }
