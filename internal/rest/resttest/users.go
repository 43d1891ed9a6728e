package resttest

import (
	"context"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire"
)

// CreateUser adds to Users and answers with Secret as its token.
func (f *Fake) CreateUser(_ context.Context, r apiv1.UserRequest) (apiv1.UserReply, error) {
	return do(f, "create-user", func() (apiv1.UserReply, error) {
		for _, u := range f.UserList {
			if u.Name == r.Name {
				return apiv1.UserReply{},
					wire.Problemf(http.StatusConflict, "name-taken", "verge user grant "+r.Name,
						"there is such a user already", "%s", r.Name)
			}
		}
		u := apiv1.UserView{Name: r.Name, Roles: r.Roles, TokenExpires: f.TokenAnswer.Expires}
		f.UserList = append(f.UserList, u)
		return apiv1.UserReply{User: u, Token: f.TokenAnswer.Token}, nil
	})
}

// RotateToken answers with TokenAnswer.
func (f *Fake) RotateToken(_ context.Context, name string, _ time.Duration) (apiv1.UserReply, error) {
	u, err := f.user("rotate-token", name, nil)
	u.TokenExpires = f.TokenAnswer.Expires
	return apiv1.UserReply{User: u, Token: f.TokenAnswer.Token}, err
}

// RemoveUser takes it away from UserList.
func (f *Fake) RemoveUser(_ context.Context, name string) error {
	return f.run("delete-user", func() error {
		for i, u := range f.UserList {
			if u.Name == name {
				f.UserList = append(f.UserList[:i:i], f.UserList[i+1:]...)
				return nil
			}
		}
		return missing("user", name)
	})
}

// Grant adds roles to one of UserList.
func (f *Fake) Grant(_ context.Context, name string, r wire.Roles) (apiv1.UserView, error) {
	return f.user("grant", name, func(u *apiv1.UserView) {
		u.Admin, u.Monitor = u.Admin || r.Admin, u.Monitor || r.Monitor
		u.Namespaces, u.Clusters = merged(u.Namespaces, r.Namespaces), merged(u.Clusters, r.Clusters)
	})
}

func merged(a, b map[string]string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, a)
	maps.Copy(out, b)
	return out
}

// Revoke takes roles from one of UserList.
func (f *Fake) Revoke(_ context.Context, name string, r wire.Roles) (apiv1.UserView, error) {
	return f.user("revoke", name, func(u *apiv1.UserView) {
		u.Admin, u.Monitor = u.Admin && !r.Admin, u.Monitor && !r.Monitor
		u.Namespaces, u.Clusters = maps.Clone(u.Namespaces), maps.Clone(u.Clusters)
		for n := range r.Namespaces {
			delete(u.Namespaces, n)
		}
		for n := range r.Clusters {
			delete(u.Clusters, n)
		}
	})
}

func (f *Fake) user(op, name string, change func(*apiv1.UserView)) (apiv1.UserView, error) {
	end, err := f.begin(op)
	if err != nil {
		return apiv1.UserView{}, err
	}
	defer end()
	for i := range f.UserList {
		if f.UserList[i].Name == name {
			if change != nil {
				change(&f.UserList[i])
			}
			return f.UserList[i], nil
		}
	}
	return apiv1.UserView{}, missing("user", name)
}

// Users are UserList.
func (f *Fake) Users(context.Context) ([]apiv1.UserView, error) { return all(f, "users", &f.UserList) }

// User is one of UserList.
func (f *Fake) User(_ context.Context, name string) (apiv1.UserView, error) {
	return f.user("user", name, nil)
}

// Tokens are TokenList.
func (f *Fake) Tokens(context.Context) ([]apiv1.TokenView, error) {
	return all(f, "tokens", &f.TokenList)
}

// RevokeToken takes one away from TokenList, and those of which it is the maker.
func (f *Fake) RevokeToken(_ context.Context, id string) ([]apiv1.TokenView, error) {
	return do(f, "revoke-token", func() ([]apiv1.TokenView, error) {
		id = strings.TrimPrefix(id, "token/")
		var gone, left []apiv1.TokenView
		for _, v := range f.TokenList {
			if strings.HasPrefix(v.ID, id) || strings.HasPrefix(v.By, "token/"+id) {
				gone = append(gone, v)
			} else {
				left = append(left, v)
			}
		}
		if len(gone) == 0 {
			return nil, missing("token", id)
		}
		f.TokenList = left
		return gone, nil
	})
}

// Audit answers with those of AuditEntries that a query asks for.
func (f *Fake) Audit(_ context.Context, q apiv1.AuditQuery) (apiv1.AuditPage, error) {
	list, err := all(f, "audit", &f.AuditEntries)
	page := apiv1.AuditPage{Entries: []apiv1.AuditEntry{}}
	for _, e := range list {
		if (q.Before == 0 || e.Seq < q.Before) && !e.At.Before(q.Since) && (q.User == "" || e.Who == q.User) {
			page.Entries = append(page.Entries, e)
		}
	}
	if n := len(page.Entries); q.Limit > 0 && n > q.Limit {
		page.Entries = page.Entries[n-q.Limit:]
		page.Before = page.Entries[0].Seq
	}
	return page, err
}

// Record adds to AuditEntries.
func (f *Fake) Record(_ context.Context, e apiv1.AuditEntry) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.NoRecord != nil {
		return f.NoRecord
	}
	e.Seq = uint64(len(f.AuditEntries)) + 1
	f.AuditEntries = append(f.AuditEntries, e)
	return nil
}

// Recorded are the AuditEntries so far.
func (f *Fake) Recorded() []apiv1.AuditEntry {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]apiv1.AuditEntry(nil), f.AuditEntries...)
}
