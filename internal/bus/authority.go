package bus

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
)

const (
	authorityFile    = "bus.json"
	maxAuthorityFile = 16 << 20

	accountSystem = "SYS"   // the server's own events
	accountStore  = "STORE" // JetStream; only this process is in it
	accountLocal  = "LOCAL" // a cluster's workers
	accountUp     = "UP"    // a cluster's link to its root
	// clusterAccountPrefix makes the name of a cluster's account at its root.
	clusterAccountPrefix = "C_"
)

// authority issues the tokens of one server: an operator key that signs
// accounts, and account keys that sign users. It is kept in one file, so that a
// server works from its first second without anyone's help.
type authority struct {
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

// openAuthority loads the authority of a server or makes one, and makes those of
// the named accounts that it lacks.
func openAuthority(dir string, accounts ...string) (*authority, error) {
	a := &authority{path: filepath.Join(dir, authorityFile)}
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
func (a *authority) update(change func(*authorityState) error) error {
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
func (a *authority) account(name string) (accountState, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	acc, ok := a.state.Accounts[name]
	if !ok {
		return accountState{}, false
	}
	return *acc, true
}

// names returns the accounts with a prefix, sorted.
func (a *authority) names(prefix string) []string {
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

func (a *authority) operator() (nkeys.KeyPair, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	kp, err := nkeys.FromSeed([]byte(a.state.Operator))
	if err != nil {
		return nil, fmt.Errorf("bus keys in %s: operator key: %w", a.path, err)
	}
	return kp, nil
}

func (a *authority) accountKey(name string) (nkeys.KeyPair, error) {
	acc, ok := a.account(name)
	if !ok {
		return nil, fmt.Errorf("bus account %s: %w", name, ErrNotFound)
	}
	kp, err := nkeys.FromSeed([]byte(acc.Seed))
	if err != nil {
		return nil, fmt.Errorf("bus keys in %s: account %s: %w", a.path, name, err)
	}
	return kp, nil
}

// publicKey of an account, which is its name inside the server.
func (a *authority) publicKey(account string) (string, error) {
	kp, err := a.accountKey(account)
	if err != nil {
		return "", err
	}
	return kp.PublicKey()
}

// operatorClaims are what the server trusts.
func (a *authority) operatorClaims() (*jwt.OperatorClaims, error) {
	kp, err := a.operator()
	if err != nil {
		return nil, err
	}
	pub, err := kp.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("operator key: %w", err)
	}
	sys, err := a.publicKey(accountSystem)
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

// accountClaims returns an account as the server is to know it, signed.
func (a *authority) accountClaims(name string) (*jwt.AccountClaims, string, error) {
	acc, _ := a.account(name)
	pub, err := a.publicKey(name)
	if err != nil {
		return nil, "", err
	}
	claims := jwt.NewAccountClaims(pub)
	claims.Name = name
	if name == accountStore {
		claims.Limits.JetStreamLimits = jwt.JetStreamLimits{
			DiskStorage: jwt.NoLimit, MemoryStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit,
		}
	}
	for user, until := range acc.Revoked {
		claims.RevokeAt(user, time.Unix(until, 0))
	}
	return a.signAccount(claims)
}

// closedAccountClaims refuse and disconnect everyone in an account that is
// about to be removed.
func (a *authority) closedAccountClaims(name string) (*jwt.AccountClaims, string, error) {
	claims, _, err := a.accountClaims(name)
	if err != nil {
		return nil, "", err
	}
	claims.RevokeAt(jwt.All, time.Now())
	claims.Limits.Conn = 0
	claims.Limits.LeafNodeConn = 0
	return a.signAccount(claims)
}

func (a *authority) signAccount(claims *jwt.AccountClaims) (*jwt.AccountClaims, string, error) {
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

// issue signs a user of an account.
func (a *authority) issue(account string, claims *jwt.UserClaims) (string, error) {
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
