package people

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// Keys of a book in its store.
const (
	keyUser  = "user."      // + name: wire.User
	keyToken = "usertoken." // + hash: tokenRecord
)

// Bounds, and how long a token is good where nothing else was asked for.
const (
	TokenTTL = 90 * 24 * time.Hour
	maxUsers = 10_000
	maxRoles = 256
)

// tokenRecord leads from a token to its user.
type tokenRecord struct {
	V    int    `json:"v"`
	User string `json:"user"`
}

// Book keeps the users of a root or cluster. It is safe for concurrent use.
type Book struct {
	Store bus.Store
	// Now says what time it is.
	Now func() time.Time
	// Site is the cluster whose users these are; "" at a root.
	Site string

	// Less, if set, is told of a user that may do less than before, or is gone.
	Less func(name string)

	mu    sync.Mutex   // held over changes of users
	ended rest.Endings // by user
}

// Authenticate says whom a bearer token belongs to. known is false where it
// belongs to no user.
func (b *Book) Authenticate(ctx context.Context, text string) (p rest.Principal, known bool, err error) {
	hash, err := pki.HashBearer(text)
	if err != nil {
		return p, false, nil //nolint:nilerr // not a token of a user; whoever looks next says why
	}
	e, err := b.Store.Get(ctx, keyToken+hash)
	if errors.Is(err, bus.ErrNotFound) {
		return p, false, nil
	}
	if err != nil {
		return p, true, fmt.Errorf("looking up the token: %w", err)
	}
	var rec tokenRecord
	if err := json.Unmarshal(e.Value, &rec); err != nil {
		return p, true, fmt.Errorf("stored token of a user: %w", err)
	}
	// The end is taken before the look, so that no change goes unnoticed.
	end := b.ended.Of(rec.User)
	u, err := b.user(ctx, rec.User)
	var gone *wire.Problem
	if err != nil && !errors.As(err, &gone) {
		return p, true, err
	}
	if err != nil || u.Token.Hash != hash {
		return p, true, wire.Problemf(401, "bad-token", "ask an administrator for a new one", "the token is refused", "it is not known here")
	}
	left := u.Token.Expires.Sub(b.Now())
	if left <= 0 {
		return p, true, wire.Problemf(401, "token-expired", "ask an administrator for a new one: verge user token "+u.Name,
			"the token is refused", "it expired at %s", u.Token.Expires.UTC().Format(time.RFC3339))
	}
	return rest.Principal{Who: whoOf(u), Ended: end, Left: left}, true, nil
}

// whoOf is what a user may do.
func whoOf(u *wire.User) access.Who {
	w := access.Who{Name: "user/" + u.Name, Admin: u.Admin, Monitor: u.Monitor, Namespaces: map[string]access.Role{}, Clusters: map[string]access.Role{}}
	for n, r := range u.Namespaces {
		w.Namespaces[n] = access.Role(r)
	}
	for n, r := range u.Clusters {
		w.Clusters[n] = access.Role(r)
	}
	return w
}

// end cuts off what a user has open.
func (b *Book) end(name string) {
	b.ended.End(name)
	if b.Less != nil {
		b.Less(name)
	}
}

// Administers says whether who ("user/amy") is not one of these users, or one that
// is an administrator.
func (b *Book) Administers(ctx context.Context, who string) (bool, error) {
	name, is := strings.CutPrefix(who, "user/")
	if !is {
		return true, nil
	}
	u, err := b.user(ctx, name)
	var gone *wire.Problem
	if errors.As(err, &gone) {
		return false, nil
	}
	return err == nil && u.Admin, err
}

func (b *Book) user(ctx context.Context, name string) (*wire.User, error) {
	e, err := b.Store.Get(ctx, keyUser+name)
	if errors.Is(err, bus.ErrNotFound) {
		return nil, noUser(name)
	}
	if err != nil {
		return nil, fmt.Errorf("looking up user %s: %w", name, err)
	}
	u := &wire.User{}
	if err := json.Unmarshal(e.Value, u); err != nil {
		return nil, fmt.Errorf("stored user %s: %w", name, err)
	}
	return u, nil
}

func noUser(name string) error {
	return wire.Problemf(404, "no-such-user", "verge user ls", "there is no such user", "%q is not known", name)
}

// list are all users by name.
func (b *Book) list(ctx context.Context) ([]*wire.User, error) {
	entries, err := b.Store.List(ctx, keyUser)
	if err != nil {
		return nil, fmt.Errorf("listing users: %w", err)
	}
	out := make([]*wire.User, 0, len(entries))
	for _, e := range entries {
		u := &wire.User{}
		if err := json.Unmarshal(e.Value, u); err != nil {
			return nil, fmt.Errorf("stored user %s: %w", e.Key, err)
		}
		out = append(out, u)
	}
	return out, nil
}

// CreateUser makes a user with its token; see rest.Backend.
func (b *Book) CreateUser(ctx context.Context, r wire.UserRequest) (wire.UserReply, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !isName(r.Name) {
		return wire.UserReply{}, wire.Problemf(422, "bad-name", "letters a-z, digits and -, at most 63", "this cannot be the name of a user", "%q", r.Name)
	}
	if err := b.checkRoles(r.Roles); err != nil {
		return wire.UserReply{}, err
	}
	all, err := b.list(ctx)
	if err != nil {
		return wire.UserReply{}, err
	}
	for _, u := range all {
		if u.Name == r.Name {
			return wire.UserReply{}, wire.Problemf(409, "name-taken", "change its roles (verge user grant "+r.Name+") or make it a new token (verge user token "+r.Name+")", "there is such a user already", "%s", r.Name)
		}
	}
	if len(all) >= maxUsers {
		return wire.UserReply{}, wire.Problemf(409, "too-many", "remove those that are not used: verge user rm NAME", "there are too many users", "%d, at most %d", len(all), maxUsers)
	}
	u := &wire.User{V: wire.Version, Name: r.Name, Roles: r.Roles, Created: b.Now(), By: rest.Caller(ctx)}
	return b.renew(ctx, u, time.Duration(r.TTLSeconds)*time.Second)
}

// RotateToken makes a new token for a user and ends the old one; see rest.Backend.
func (b *Book) RotateToken(ctx context.Context, name string, ttl time.Duration) (wire.UserReply, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	u, err := b.user(ctx, name)
	if err != nil {
		return wire.UserReply{}, err
	}
	return b.renew(ctx, u, ttl)
}

// renew stores a user with a new token instead of the one that it has.
func (b *Book) renew(ctx context.Context, u *wire.User, ttl time.Duration) (wire.UserReply, error) {
	now := b.Now()
	text, hash := pki.NewBearer()
	var ops []bus.Op
	if u.Token.Hash != "" {
		ops = append(ops, bus.Del(keyToken+u.Token.Hash))
	}
	u.Token = wire.UserToken{Hash: hash, Created: now, Expires: now.Add(cmp.Or(ttl, TokenTTL))}
	rec, err := json.Marshal(tokenRecord{V: wire.Version, User: u.Name})
	if err != nil {
		return wire.UserReply{}, err
	}
	if err := b.put(ctx, u, append(ops, bus.Put(keyToken+hash, rec))...); err != nil {
		return wire.UserReply{}, err
	}
	b.end(u.Name)
	return wire.UserReply{User: view(u), Token: text}, nil
}

// put stores a user together with more.
func (b *Book) put(ctx context.Context, u *wire.User, more ...bus.Op) error {
	data, err := json.Marshal(u)
	if err != nil {
		return fmt.Errorf("encoding user %s: %w", u.Name, err)
	}
	return b.commit(ctx, append(more, bus.Put(keyUser+u.Name, data))...)
}

func (b *Book) commit(ctx context.Context, ops ...bus.Op) error {
	_, err := b.Store.Commit(ctx, ops...)
	switch {
	case errors.Is(err, bus.ErrUnknownOutcome):
		return wire.Problemf(503, "outcome-unknown", "look (verge user ls) before you try again", "it is not known whether this was stored", "%v", err)
	case err != nil:
		return wire.Problemf(507, "not-stored", "free some space or repair the disk, then try again", "nothing was changed: it could not be stored", "%v", err)
	}
	return nil
}

// RemoveUser forgets a user and its token; see rest.Backend.
func (b *Book) RemoveUser(ctx context.Context, name string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	u, err := b.user(ctx, name)
	if err != nil {
		return err
	}
	if err := b.commit(ctx, bus.Del(keyUser+name), bus.Del(keyToken+u.Token.Hash)); err != nil {
		return err
	}
	b.end(name)
	return nil
}

// Grant adds roles to a user; see rest.Backend.
func (b *Book) Grant(ctx context.Context, name string, r wire.Roles) (wire.UserView, error) {
	return b.change(ctx, name, r, func(u *wire.User) (less bool, err error) {
		u.Admin, u.Monitor = u.Admin || r.Admin, u.Monitor || r.Monitor
		u.Namespaces, less = added(u.Namespaces, r.Namespaces)
		u.Clusters, _ = added(u.Clusters, r.Clusters)
		return less, nil
	})
}

// added are the roles of have and more. less: one was replaced.
func added(have, more map[string]string) (_ map[string]string, less bool) {
	have = maps.Clone(have)
	if have == nil {
		have = map[string]string{}
	}
	for name, role := range more {
		less = less || (have[name] != "" && have[name] != role)
		have[name] = role
	}
	return have, less
}

// Revoke takes roles away from a user. A role that it does not have is an error,
// and nothing is changed; see rest.Backend.
func (b *Book) Revoke(ctx context.Context, name string, r wire.Roles) (wire.UserView, error) {
	return b.change(ctx, name, r, func(u *wire.User) (bool, error) {
		if r.Admin && !u.Admin {
			return false, hasNot(u, "is no administrator")
		}
		if r.Monitor && !u.Monitor {
			return false, hasNot(u, "is no monitor")
		}
		u.Admin, u.Monitor = u.Admin && !r.Admin, u.Monitor && !r.Monitor
		u.Namespaces, u.Clusters = maps.Clone(u.Namespaces), maps.Clone(u.Clusters)
		for of, roles := range map[string][2]map[string]string{"namespace": {u.Namespaces, r.Namespaces}, "cluster": {u.Clusters, r.Clusters}} {
			for n, role := range roles[1] {
				if roles[0][n] != role {
					return false, hasNot(u, "is not %s of %s %s", role, of, n)
				}
				delete(roles[0], n)
			}
		}
		return true, nil
	})
}

func hasNot(u *wire.User, what string, args ...any) error {
	return wire.Problemf(409, "no-such-role", "see what it has: verge user describe "+u.Name, "nothing was changed", "user %s "+what, append([]any{u.Name}, args...)...)
}

// change stores what f makes of a user. less: it may do less than before.
func (b *Book) change(ctx context.Context, name string, r wire.Roles, f func(*wire.User) (less bool, err error)) (wire.UserView, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.checkRoles(r); err != nil {
		return wire.UserView{}, err
	}
	u, err := b.user(ctx, name)
	if err != nil {
		return wire.UserView{}, err
	}
	less, err := f(u)
	if err == nil {
		err = b.checkRoles(u.Roles) // there may be too many now
	}
	if err == nil {
		err = b.put(ctx, u)
	}
	if err != nil {
		return wire.UserView{}, err
	}
	if less {
		b.end(name)
	}
	return view(u), nil
}

// Users lists all; see rest.Backend.
func (b *Book) Users(ctx context.Context) ([]wire.UserView, error) {
	all, err := b.list(ctx)
	out := make([]wire.UserView, 0, len(all))
	for _, u := range all {
		out = append(out, view(u))
	}
	return out, err
}

// User is one of them; see rest.Backend.
func (b *Book) User(ctx context.Context, name string) (wire.UserView, error) {
	if !isName(name) {
		return wire.UserView{}, noUser(name)
	}
	u, err := b.user(ctx, name)
	if err != nil {
		return wire.UserView{}, err
	}
	return view(u), nil
}

// LeaveNamespace takes away all roles in a namespace, together with what ops do.
// Before it returns nobody has them.
func (b *Book) LeaveNamespace(ctx context.Context, namespace string, ops ...bus.Op) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	all, err := b.list(ctx)
	if err != nil {
		return err
	}
	var left []string
	defer func() {
		for _, name := range left {
			b.end(name)
		}
	}()
	var batch []bus.Op
	for _, u := range all {
		if u.Namespaces[namespace] == "" {
			continue
		}
		u.Namespaces = maps.Clone(u.Namespaces)
		delete(u.Namespaces, namespace)
		data, err := json.Marshal(u)
		if err != nil {
			return fmt.Errorf("encoding user %s: %w", u.Name, err)
		}
		left, batch = append(left, u.Name), append(batch, bus.Put(keyUser+u.Name, data))
		// What does not fit into one commit goes before: roles without their
		// namespace allow nothing.
		if len(batch)+len(ops) == bus.MaxCommitOps {
			if _, err := b.Store.Commit(ctx, batch...); err != nil {
				return err
			}
			batch = nil
		}
	}
	_, err = b.Store.Commit(ctx, append(batch, ops...)...)
	return err
}

// checkRoles says whether such roles can be given here.
func (b *Book) checkRoles(r wire.Roles) error {
	bad := func(detail string, args ...any) error {
		return wire.Problemf(422, "bad-role", "verge user create --help", "these roles cannot be given", detail, args...)
	}
	if len(r.Namespaces) > maxRoles || len(r.Clusters) > maxRoles {
		return bad("%d and %d are more than %d", len(r.Namespaces), len(r.Clusters), maxRoles)
	}
	for n, role := range r.Namespaces {
		switch {
		case !isName(n):
			return bad("%q cannot be the name of a namespace", n)
		case role != string(access.Developer) && role != string(access.Viewer):
			return bad("%.40q is no role in a namespace: %s or %s", role, access.Developer, access.Viewer)
		}
	}
	for n, role := range r.Clusters {
		switch {
		case !isName(n):
			return bad("%q cannot be the name of a cluster", n)
		case role != string(access.Operator):
			return bad("%.40q is no role at a cluster: %s", role, access.Operator)
		case b.Site != "" && n != b.Site:
			return bad("this is cluster %s, which cannot make operators of cluster %s", b.Site, n)
		}
	}
	return nil
}

// isName: a DNS label, so that it is also a part of a key.
func isName(s string) bool {
	return s != "" && len(s) <= 63 && s[0] != '-' && s[len(s)-1] != '-' && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

func view(u *wire.User) wire.UserView {
	return wire.UserView{Name: u.Name, Roles: u.Roles, Created: u.Created, By: u.By, TokenCreated: u.Token.Created, TokenExpires: u.Token.Expires}
}
