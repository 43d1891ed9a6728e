package people

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/pki/tokens"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// Keys of a book in its store.
const (
	keyUser  = "user."      // + name: record.User
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
	// Log receives the reason why a user with an unreadable record is refused; nil: none.
	Log *slog.Logger

	// Less, if set, is called for a user that lost rights, or is gone.
	Less func(name string)

	mu    sync.Mutex   // held over changes of users
	ended rest.Endings // by user
	said  sync.Map     // keys of records of which the log has been told, once each
}

// Authenticate says whom a bearer token belongs to. known is false where it
// belongs to no user.
func (b *Book) Authenticate(ctx context.Context, text string) (p rest.Principal, known bool, err error) {
	hash, err := tokens.HashBearer(text)
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
	if err := records.Load(e, &rec); err != nil {
		return p, true, b.closed(e.Key, "", err)
	}
	// The end is taken before the look, so that no change goes unnoticed.
	end := b.ended.Of(rec.User)
	u, err := b.user(ctx, rec.User)
	var damaged *unreadable
	if errors.As(err, &damaged) {
		return p, true, b.closed(keyUser+rec.User, rec.User, damaged.err)
	}
	var gone *wire.Problem
	if err != nil && !errors.As(err, &gone) {
		return p, true, err
	}
	if err != nil || u.Token.Hash != hash {
		return p, true, wire.Problemf(401, "bad-token", "ask an administrator for a new one", "the token is refused",
			"it is not known here")
	}
	left := u.Token.Expires.Sub(b.Now())
	if left <= 0 {
		return p, true, wire.Problemf(401, "token-expired", "ask an administrator for a new one: verge user token "+
			u.Name,
			"the token is refused", "it expired at %s", u.Token.Expires.UTC().Format(time.RFC3339))
	}
	return rest.Principal{Who: whoOf(u), Ended: end, Left: left}, true, nil
}

// closed is what somebody hears whose token leads to a record that cannot be read: what it
// says of them is not known, so they may do nothing. The log has more, once for each record.
func (b *Book) closed(key, user string, err error) error {
	if _, again := b.said.LoadOrStore(key, true); !again && b.Log != nil {
		b.Log.Error("a user is not let in: its stored record cannot be read", "record", key, "user", user, "error",
			fmt.Sprintf("%.200v", err), "remedy", mend(user))
	}
	return wire.Problemf(401, "record-unreadable", "ask an administrator, whose verge user ls says what to do",
		"the token is refused", "what is stored about its user cannot be read")
}

// mend is what an administrator can do about the record of a user, or ("") of a token.
func mend(user string) string {
	if user == "" {
		return "replace the token: verge user token NAME"
	}
	return "restore a backup of before (verge restore), or make the user again: verge user rm " + user +
		", then verge user create " + user
}

// unreadable is the error of a user whose record cannot be read.
type unreadable struct {
	name string
	err  error
}

// Error implements error.
func (u *unreadable) Error() string {
	return fmt.Sprintf("stored record %s%s cannot be read (%.200v): it grants no access. To repair it, %s", keyUser,
		u.name, u.err, mend(u.name))
}

// Unwrap gives the problem that others see.
func (u *unreadable) Unwrap() []error {
	return []error{wire.Problemf(500, "record-unreadable", mend(u.name), "what is stored about the user cannot be read",
		"record %s%s: %.200v", keyUser, u.name, u.err), u.err}
}

// whoOf is what a user may do.
func whoOf(u *record.User) access.Who {
	w := access.Who{Name: "user/" + u.Name, Admin: u.Admin, Monitor: u.Monitor, Namespaces: map[string]access.Role{},
		Clusters: map[string]access.Role{}}
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
	if errors.As(err, &gone) && gone.Status == 404 {
		return false, nil
	}
	return err == nil && u.Admin, err
}

func (b *Book) user(ctx context.Context, name string) (*record.User, error) {
	e, err := b.Store.Get(ctx, keyUser+name)
	if errors.Is(err, bus.ErrNotFound) {
		return nil, noUser(name)
	}
	if err != nil {
		return nil, fmt.Errorf("looking up user %s: %w", name, err)
	}
	u := &record.User{}
	if err := records.Load(e, u); err != nil {
		return nil, &unreadable{name, err}
	}
	return u, nil
}

func noUser(name string) error {
	return wire.Problemf(404, "no-such-user", "verge user ls", "there is no such user", "%q is not known", name)
}

// list are all users by name, and those of them whose record cannot be read.
func (b *Book) list(ctx context.Context) (all []*record.User, lost []*unreadable, err error) {
	entries, err := b.Store.List(ctx, keyUser)
	if err != nil {
		return nil, nil, fmt.Errorf("listing users: %w", err)
	}
	all = make([]*record.User, 0, len(entries))
	for _, e := range entries {
		u := &record.User{}
		if err := records.Load(e, u); err != nil {
			lost = append(lost, &unreadable{strings.TrimPrefix(e.Key, keyUser), err})
			continue
		}
		all = append(all, u)
	}
	return all, lost, nil
}

// CreateUser makes a user with its token; see rest.Backend.
func (b *Book) CreateUser(ctx context.Context, r apiv1.UserRequest) (apiv1.UserReply, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !isName(r.Name) {
		return apiv1.UserReply{},
			wire.Problemf(422, "bad-name", "letters a-z, digits and -, at most 63", "this cannot be the name of a user",
				"%q", r.Name)
	}
	if err := b.checkRoles(r.Roles); err != nil {
		return apiv1.UserReply{}, err
	}
	all, lost, err := b.list(ctx)
	if err != nil {
		return apiv1.UserReply{}, err
	}
	for _, u := range lost {
		if u.name == r.Name {
			return apiv1.UserReply{}, u
		}
	}
	for _, u := range all {
		if u.Name == r.Name {
			return apiv1.UserReply{},
				wire.Problemf(409, "name-taken", "change its roles (verge user grant "+r.Name+
					") or make it a new token (verge user token "+r.Name+")", "there is such a user already", "%s",
					r.Name)
		}
	}
	if n := len(all) + len(lost); n >= maxUsers {
		return apiv1.UserReply{},
			wire.Problemf(409, "too-many", "remove those that are not used: verge user rm NAME",
				"there are too many users", "%d, at most %d", n, maxUsers)
	}
	u := &record.User{V: wire.Version, Name: r.Name, Roles: r.Roles, Created: b.Now(), By: rest.Caller(ctx)}
	return b.renew(ctx, u, time.Duration(r.TTLSeconds)*time.Second)
}

// RotateToken makes a new token for a user and ends the old one; see rest.Backend.
func (b *Book) RotateToken(ctx context.Context, name string, ttl time.Duration) (apiv1.UserReply, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	u, err := b.user(ctx, name)
	if err != nil {
		return apiv1.UserReply{}, err
	}
	return b.renew(ctx, u, ttl)
}

// renew stores a user with a new token instead of the one that it has.
func (b *Book) renew(ctx context.Context, u *record.User, ttl time.Duration) (apiv1.UserReply, error) {
	now := b.Now()
	text, hash := tokens.NewBearer()
	var ops []bus.Op
	if u.Token.Hash != "" {
		ops = append(ops, bus.Del(keyToken+u.Token.Hash))
	}
	u.Token = record.UserToken{Hash: hash, Created: now, Expires: now.Add(cmp.Or(ttl, TokenTTL))}
	rec, err := json.Marshal(tokenRecord{V: wire.Version, User: u.Name})
	if err != nil {
		return apiv1.UserReply{}, err
	}
	if err := b.put(ctx, u, append(ops, bus.Put(keyToken+hash, rec))...); err != nil {
		return apiv1.UserReply{}, err
	}
	b.end(u.Name)
	return apiv1.UserReply{User: view(u), Token: text}, nil
}

// put stores a user together with more.
func (b *Book) put(ctx context.Context, u *record.User, more ...bus.Op) error {
	data, err := json.Marshal(u)
	if err != nil {
		return fmt.Errorf("encoding user %s: %w", u.Name, err)
	}
	return b.commit(ctx, append(more, bus.Put(keyUser+u.Name, data))...)
}

func (b *Book) commit(ctx context.Context, ops ...bus.Op) error {
	if _, err := b.Store.Commit(ctx, ops...); err != nil {
		return records.Unstored(err, "look (verge user ls) before you try again", "the disk")
	}
	return nil
}

// RemoveUser forgets a user and its token, also one whose record cannot be read; see
// rest.Backend.
func (b *Book) RemoveUser(ctx context.Context, name string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	ops := []bus.Op{bus.Del(keyUser + name)}
	u, err := b.user(ctx, name)
	var damaged *unreadable
	switch {
	case err == nil:
		ops = append(ops, bus.Del(keyToken+u.Token.Hash))
	case !errors.As(err, &damaged):
		return err
	default: // which token it had, only those can say
		tokens, err := b.Store.List(ctx, keyToken)
		if err != nil {
			return fmt.Errorf("listing tokens of users: %w", err)
		}
		for _, e := range tokens {
			var rec tokenRecord
			if records.Load(e, &rec) == nil && rec.User == name && len(ops) < bus.MaxCommitOps {
				ops = append(ops, bus.Del(e.Key))
			}
		}
	}
	if err := b.commit(ctx, ops...); err != nil {
		return err
	}
	b.said.Delete(keyUser + name)
	b.end(name)
	return nil
}

// Grant adds roles to a user; see rest.Backend.
func (b *Book) Grant(ctx context.Context, name string, r wire.Roles) (apiv1.UserView, error) {
	return b.change(ctx, name, r, func(u *record.User) (less bool, err error) {
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
func (b *Book) Revoke(ctx context.Context, name string, r wire.Roles) (apiv1.UserView, error) {
	return b.change(ctx, name, r, func(u *record.User) (bool, error) {
		if r.Admin && !u.Admin {
			return false, hasNot(u, "is no administrator")
		}
		if r.Monitor && !u.Monitor {
			return false, hasNot(u, "is no monitor")
		}
		u.Admin, u.Monitor = u.Admin && !r.Admin, u.Monitor && !r.Monitor
		u.Namespaces, u.Clusters = maps.Clone(u.Namespaces), maps.Clone(u.Clusters)
		for of, roles := range map[string][2]map[string]string{"namespace": {u.Namespaces, r.Namespaces},
			"cluster": {u.Clusters, r.Clusters}} {
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

func hasNot(u *record.User, what string, args ...any) error {
	return wire.Problemf(409, "no-such-role", "see what it has: verge user describe "+u.Name, "nothing was changed",
		"user %s "+what, append([]any{u.Name}, args...)...)
}

// change stores what f makes of a user. less: it may do less than before.
func (b *Book) change(ctx context.Context, name string, r wire.Roles,
	f func(*record.User) (less bool, err error)) (apiv1.UserView, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.checkRoles(r); err != nil {
		return apiv1.UserView{}, err
	}
	u, err := b.user(ctx, name)
	if err != nil {
		return apiv1.UserView{}, err
	}
	less, err := f(u)
	if err == nil {
		err = b.checkRoles(u.Roles) // there may be too many now
	}
	if err == nil {
		err = b.put(ctx, u)
	}
	if err != nil {
		return apiv1.UserView{}, err
	}
	if less {
		b.end(name)
	}
	return view(u), nil
}

// Users lists all, also those whose record cannot be read, with their names alone; see
// rest.Backend.
func (b *Book) Users(ctx context.Context) ([]apiv1.UserView, error) {
	all, lost, err := b.list(ctx)
	out := make([]apiv1.UserView, 0, len(all)+len(lost))
	for _, u := range all {
		out = append(out, view(u))
	}
	for _, u := range lost {
		out = append(out, apiv1.UserView{Name: u.name, Problem: u.Error()})
	}
	slices.SortFunc(out, func(a, b apiv1.UserView) int { return strings.Compare(a.Name, b.Name) })
	return out, err
}

// User is one of them; see rest.Backend.
func (b *Book) User(ctx context.Context, name string) (apiv1.UserView, error) {
	if !isName(name) {
		return apiv1.UserView{}, noUser(name)
	}
	u, err := b.user(ctx, name)
	if err != nil {
		return apiv1.UserView{}, err
	}
	return view(u), nil
}

// LeaveNamespace takes away all roles in a namespace: commit stores that, together with the
// removal of the namespace. Before it returns nobody has them.
func (b *Book) LeaveNamespace(ctx context.Context, namespace string, commit func(ops ...bus.Op) error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	all, lost, err := b.list(ctx)
	if err != nil {
		return err
	}
	if len(lost) > 0 { // it may have a role there, and be read again one day
		return lost[0]
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
		// What may not fit into one commit goes before: roles without their
		// namespace allow nothing.
		if len(batch) == bus.MaxCommitOps/2 {
			if _, err := b.Store.Commit(ctx, batch...); err != nil {
				return err
			}
			batch = nil
		}
	}
	return commit(batch...)
}

// checkRoles says whether such roles can be given here.
func (b *Book) checkRoles(r wire.Roles) error {
	bad := func(detail string, args ...any) error {
		return wire.Problemf(422, "bad-role", "verge user create --help", "these roles cannot be given", detail,
			args...)
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
	return s != "" && len(s) <= 63 && s[0] != '-' && s[len(s)-1] != '-' &&
		strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

func view(u *record.User) apiv1.UserView {
	return apiv1.UserView{Name: u.Name, Roles: u.Roles, Created: u.Created, By: u.By, TokenCreated: u.Token.Created,
		TokenExpires: u.Token.Expires}
}
