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

// SecretHeld is which value of a secret an instance has.
type SecretHeld struct {
	Name string `json:"name"`
	// Version of the value in its files, or, where it is only a variable, of the one that
	// it was started with; "" where that is not known. At is since when.
	Version string    `json:"version,omitempty"`
	At      time.Time `json:"at,omitzero"`
	// Next is the version of a newer value, which counts from its next start on: in its
	// variables, or in its files, where Why says why they could not be exchanged. "" is
	// none.
	Next string `json:"next,omitempty"`
	Why  string `json:"why,omitempty"`
}

// SecretNews says in words which values an instance has now that it had not, without
// having been started again.
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

// SecretView is a secret without its value, which nobody is shown.
type SecretView struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	Created   time.Time `json:"created"`
	Updated   time.Time `json:"updated"`
	By        string    `json:"by,omitempty" doc:"who set the value"`
	// UsedBy are the services that name it: "shop.web".
	UsedBy []string `json:"used_by,omitempty" doc:"services that name it"`
	// Variable are those of them that have it in a variable, which is as it was when an
	// instance started.
	Variable []string `json:"variable,omitempty" doc:"those of them that have it in a variable, which is as it was when an instance started"`
	// Holders are how many instances that run have a value of it, as their workers say,
	// Current how many of them have this one. Restart are those that get it at their next
	// start.
	Holders int          `json:"holders,omitempty" doc:"how many instances that run have a value of it"`
	Current int          `json:"current,omitempty" doc:"how many of them have the newest one"`
	Restart []InstanceID `json:"restart,omitempty" doc:"those that get the newest one at their next start; 100 at most"`
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
