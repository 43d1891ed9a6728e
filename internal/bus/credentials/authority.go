package credentials

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	// jwt: the only format of accounts and users that nats-server reads in
	// operator mode.
	"github.com/nats-io/jwt/v2"
	// nkeys: the key format that those tokens are signed with.
	"github.com/nats-io/nkeys"

	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/atomicfile/statefile"
	"github.com/verge-edge/verge/internal/bus"
)

const (
	authorityFile    = "bus.json"
	maxAuthorityFile = 16 << 20
)

// Accounts of a server.
const (
	AccountSystem = "SYS"   // the server's own events
	AccountStore  = "STORE" // JetStream; only this process is in it
	AccountLocal  = "LOCAL" // a cluster's workers
	AccountUp     = "UP"    // a cluster's link to its root
	// clusterAccountPrefix makes the name of a cluster's account at its root.
	clusterAccountPrefix = "C_"
)

// Authority issues the tokens of one server: an operator key that signs
// accounts, and account keys that sign users. It is kept in one file, so that a
// server works from its first second without anyone's help.
type Authority struct {
	path string

	mu    sync.Mutex
	state authorityState // guarded by mu; on disk after each change
}

type authorityState struct {
	V        int                      `json:"v"`
	Operator string                   `json:"operator"` // seed
	Accounts map[string]*accountState `json:"accounts"`
}

var authorityKind = &statefile.Kind{What: "bus keys", Max: maxAuthorityFile, Version: 1}

type accountState struct {
	Seed string `json:"seed"`
	// User is the only user key of a cluster's account at its root.
	User string `json:"user,omitempty"`
	// Revoked has, by user key, the time (Unix seconds) until which tokens that
	// were issued for it are refused.
	Revoked map[string]int64 `json:"revoked,omitempty"`
}

// Open loads the authority of a server or makes one, and makes those of
// the named accounts that it lacks.
func Open(dir string, accounts ...string) (*Authority, error) {
	a := &Authority{path: filepath.Join(dir, authorityFile)}
	file, err := authorityKind.Load(a.path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		a.state = authorityState{V: authorityKind.Version, Accounts: map[string]*accountState{}}
		if a.state.Operator, err = newSeed(nkeys.CreateOperator); err != nil {
			return nil, err
		}
	case err != nil && !statefile.Damaged(err):
		return nil, fmt.Errorf("read bus keys: %w", err)
	default:
		// The file holds keys: its content must not get into an error text.
		if err != nil || json.Unmarshal(file.Data, &a.state) != nil || a.state.Accounts == nil {
			return nil, fmt.Errorf("bus keys in %s are damaged: restore the file from a backup of the directory", a.path)
		}
	}
	missing := slices.DeleteFunc(slices.Clone(accounts), func(name string) bool { return a.state.Accounts[name] != nil })
	if len(missing) == 0 {
		return a, nil
	}
	err = a.update(func(s *authorityState) error {
		for _, name := range missing {
			seed, err := newSeed(nkeys.CreateAccount)
			if err != nil {
				return err
			}
			s.Accounts[name] = &accountState{Seed: seed}
		}
		return nil
	})
	return a, err
}

func newSeed(create func() (nkeys.KeyPair, error)) (string, error) {
	kp, err := create()
	if err != nil {
		return "", fmt.Errorf("make a bus key: %w", err)
	}
	seed, err := kp.Seed()
	if err != nil {
		return "", fmt.Errorf("make a bus key: %w", err)
	}
	return string(seed), nil
}

// update changes the state on disk and then in memory.
func (a *Authority) update(change func(*authorityState) error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	next := a.state.clone()
	if err := change(&next); err != nil {
		return err
	}
	data, err := json.MarshalIndent(next, "", " ")
	if err != nil {
		return fmt.Errorf("encode bus keys: %w", err)
	}
	if err := authorityKind.Put(a.path, data, atomicfile.Write); err != nil {
		return fmt.Errorf("store bus keys: %w", err)
	}
	a.state = next
	return nil
}

func (s authorityState) clone() authorityState {
	accounts := make(map[string]*accountState, len(s.Accounts))
	for name, acc := range s.Accounts {
		c := *acc
		c.Revoked = make(map[string]int64, len(acc.Revoked))
		for k, v := range acc.Revoked {
			c.Revoked[k] = v
		}
		accounts[name] = &c
	}
	s.Accounts = accounts
	return s
}

// account returns a copy of the state of an account.
func (a *Authority) account(name string) (accountState, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	acc, ok := a.state.Accounts[name]
	if !ok {
		return accountState{}, false
	}
	return *acc, true
}

// Names returns the accounts with a prefix, sorted.
func (a *Authority) Names(prefix string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var names []string
	for name := range a.state.Accounts {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (a *Authority) operator() (nkeys.KeyPair, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	kp, err := nkeys.FromSeed([]byte(a.state.Operator))
	if err != nil {
		return nil, fmt.Errorf("bus keys in %s: operator key: %w", a.path, err)
	}
	return kp, nil
}

func (a *Authority) accountKey(name string) (nkeys.KeyPair, error) {
	acc, ok := a.account(name)
	if !ok {
		return nil, fmt.Errorf("bus account %s: %w", name, bus.ErrNotFound)
	}
	kp, err := nkeys.FromSeed([]byte(acc.Seed))
	if err != nil {
		return nil, fmt.Errorf("bus keys in %s: account %s: %w", a.path, name, err)
	}
	return kp, nil
}

// PublicKey of an account, which is its name inside the server.
func (a *Authority) PublicKey(account string) (string, error) {
	kp, err := a.accountKey(account)
	if err != nil {
		return "", err
	}
	return kp.PublicKey()
}

// OperatorClaims are what the server trusts.
func (a *Authority) OperatorClaims() (*jwt.OperatorClaims, error) {
	kp, err := a.operator()
	if err != nil {
		return nil, err
	}
	pub, err := kp.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("operator key: %w", err)
	}
	sys, err := a.PublicKey(AccountSystem)
	if err != nil {
		return nil, err
	}
	claims := jwt.NewOperatorClaims(pub)
	claims.Name = "verge"
	claims.SystemAccount = sys
	token, err := claims.Encode(kp)
	if err != nil {
		return nil, fmt.Errorf("sign operator: %w", err)
	}
	return jwt.DecodeOperatorClaims(token)
}

// AccountClaims returns an account as the server is to know it, signed.
func (a *Authority) AccountClaims(name string) (*jwt.AccountClaims, string, error) {
	acc, _ := a.account(name)
	pub, err := a.PublicKey(name)
	if err != nil {
		return nil, "", err
	}
	claims := jwt.NewAccountClaims(pub)
	claims.Name = name
	if name == AccountStore {
		claims.Limits.JetStreamLimits = jwt.JetStreamLimits{
			DiskStorage: jwt.NoLimit, MemoryStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit,
		}
	}
	for user, until := range acc.Revoked {
		claims.RevokeAt(user, time.Unix(until, 0))
	}
	return a.signAccount(claims)
}

// ClosedAccountClaims refuse and disconnect everyone in an account that is
// about to be removed.
func (a *Authority) ClosedAccountClaims(name string) (*jwt.AccountClaims, string, error) {
	claims, _, err := a.AccountClaims(name)
	if err != nil {
		return nil, "", err
	}
	claims.RevokeAt(jwt.All, time.Now())
	claims.Limits.Conn = 0
	claims.Limits.LeafNodeConn = 0
	return a.signAccount(claims)
}

func (a *Authority) signAccount(claims *jwt.AccountClaims) (*jwt.AccountClaims, string, error) {
	op, err := a.operator()
	if err != nil {
		return nil, "", err
	}
	token, err := claims.Encode(op)
	if err != nil {
		return nil, "", fmt.Errorf("sign account %s: %w", claims.Name, err)
	}
	return claims, token, nil
}

// Issue signs a user of an account.
func (a *Authority) Issue(account string, claims *jwt.UserClaims) (string, error) {
	kp, err := a.accountKey(account)
	if err != nil {
		return "", err
	}
	token, err := claims.Encode(kp)
	if err != nil {
		return "", fmt.Errorf("sign user %s of %s: %w", claims.Name, account, err)
	}
	return token, nil
}

// ClusterAccount is the name of a cluster's account at its root.
func ClusterAccount(cluster string) string { return clusterAccountPrefix + cluster }

// Clusters are the names of those that have an account, sorted.
func (a *Authority) Clusters() []string {
	names := a.Names(clusterAccountPrefix)
	for i, n := range names {
		names[i] = strings.TrimPrefix(n, clusterAccountPrefix)
	}
	return names
}

// Has says whether there is an account.
func (a *Authority) Has(account string) bool {
	_, ok := a.account(account)
	return ok
}

// Own makes a user key the only one of an account, which it makes unless it is there. The
// key before it is revoked.
func (a *Authority) Own(account, user string) error {
	seed, err := newSeed(nkeys.CreateAccount)
	if err != nil {
		return err
	}
	return a.update(func(s *authorityState) error {
		acc := s.Accounts[account]
		if acc == nil {
			acc = &accountState{Seed: seed}
			s.Accounts[account] = acc
		}
		if acc.User != "" && acc.User != user {
			acc.revoke(acc.User, time.Now())
		}
		acc.User = user
		acc.admit(user, time.Now())
		return nil
	})
}

// Owns says whether a user key is the only one of an account, and not revoked.
func (a *Authority) Owns(account, user string) bool {
	acc, there := a.account(account)
	_, revoked := acc.Revoked[user]
	return there && acc.User == user && !revoked
}

// Disown revokes the only key of an account.
func (a *Authority) Disown(account string) error {
	return a.update(func(s *authorityState) error {
		acc := s.Accounts[account]
		if acc == nil {
			return fmt.Errorf("its account: %w", bus.ErrNotFound)
		}
		if acc.User != "" {
			acc.revoke(acc.User, time.Now())
			acc.User = ""
		}
		return nil
	})
}

// Remove forgets an account.
func (a *Authority) Remove(account string) error {
	return a.update(func(s *authorityState) error {
		delete(s.Accounts, account)
		return nil
	})
}

// Revoked reports whether tokens for a user key of an account were revoked.
func (a *Authority) Revoked(account, user string) bool {
	acc, _ := a.account(account)
	_, ok := acc.Revoked[user]
	return ok
}

// Revoke refuses all tokens that were issued so far for a user key of an account.
func (a *Authority) Revoke(account, user string) error {
	return a.update(func(s *authorityState) error {
		s.Accounts[account].revoke(user, time.Now())
		return nil
	})
}

// Admit allows a user key of an account again; its earlier tokens stay refused.
func (a *Authority) Admit(account, user string) error {
	return a.update(func(s *authorityState) error {
		s.Accounts[account].admit(user, time.Now())
		return nil
	})
}

// admit allows a user key in an account from now on. A revocation of the key is
// moved behind the past second, so that tokens of before stay refused.
func (acc *accountState) admit(user string, now time.Time) {
	if until, revoked := acc.Revoked[user]; revoked && until >= now.Unix() {
		acc.Revoked[user] = now.Unix() - 1
	}
}

// revoke refuses every token issued so far for a user key.
func (acc *accountState) revoke(user string, now time.Time) {
	if acc.Revoked == nil {
		acc.Revoked = map[string]int64{}
	}
	acc.Revoked[user] = now.Unix()
}
