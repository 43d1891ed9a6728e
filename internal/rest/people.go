package rest

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/wire"
)

// People is the part of a Backend that is about who may use it, and who did.
type People interface {
	// CreateUser makes a user and its first token; a name that is taken is an error.
	CreateUser(ctx context.Context, r wire.UserRequest) (wire.UserReply, error)
	// RotateToken makes a new token and ends the old one; ttl 0 is the usual.
	RotateToken(ctx context.Context, name string, ttl time.Duration) (wire.UserReply, error)
	RemoveUser(ctx context.Context, name string) error
	// Grant adds roles, Revoke takes away; a role that is not there is an error.
	Grant(ctx context.Context, name string, r wire.Roles) (wire.UserView, error)
	Revoke(ctx context.Context, name string, r wire.Roles) (wire.UserView, error)
	Users(ctx context.Context) ([]wire.UserView, error)
	User(ctx context.Context, name string) (wire.UserView, error)
	// Tokens are those that were made here, to join and for programs, without what is
	// secret of them.
	Tokens(ctx context.Context) ([]wire.TokenView, error)
	// RevokeToken makes one good for nothing, and those that were made with it; id is
	// as in TokenView, or enough of its beginning. It returns what was taken back.
	RevokeToken(ctx context.Context, id string) ([]wire.TokenView, error)
	// Audit reads the audit log.
	Audit(ctx context.Context, q wire.AuditQuery) (wire.AuditPage, error)
	// Record appends to the audit log; durable when it returns. Number and time of
	// the entry are its own.
	Record(ctx context.Context, e wire.AuditEntry) error
}

type (
	createUserInput struct{ Body wire.UserRequest }
	userInput       struct {
		User string `path:"user" maxLength:"63" doc:"name of the user"`
	}
	rotateInput struct {
		User string `path:"user" maxLength:"63" doc:"name of the user"`
		Body wire.RotateRequest
	}
	rolesInput struct {
		User string `path:"user" maxLength:"63" doc:"name of the user"`
		Body wire.Roles
	}
	tokenIDInput struct {
		Token string `path:"token" maxLength:"64" doc:"id of the token, or at least its first 8 characters"`
	}
	auditInput struct {
		Since  time.Time `query:"since" doc:"only entries from this time on"`
		User   string    `query:"who" maxLength:"128" doc:"only of this user"`
		Before uint64    `query:"before" doc:"only entries with a lower number"`
		Limit  int       `query:"limit" minimum:"0" maximum:"1000" doc:"the newest of them, at most this many; 0: 1000"`
	}
)

// people are all users: what is about them is for administrators alone.
var people = finder{find: func(s *Server, _ question) (access.Object, error) {
	return s.here(access.Object{Kind: access.User}), nil
}}

func (s *Server) registerPeople(api huma.API) {
	b := s.backend
	manage := may(access.Manage, people)
	register(s, api, op("create-user", http.MethodPost, "/v1/users", "Make a user", manage),
		func(ctx context.Context, in *createUserInput) (wire.UserReply, error) {
			return b.CreateUser(ctx, in.Body)
		})
	register(s, api, op("list-users", http.MethodGet, "/v1/users", "List users", manage),
		func(ctx context.Context, _ *none) (items[wire.UserView], error) { return list(b.Users(ctx)) })
	register(s, api, op("get-user", http.MethodGet, "/v1/users/{user}", "A user and its roles", manage),
		func(ctx context.Context, in *userInput) (wire.UserView, error) { return b.User(ctx, in.User) })
	register(s, api, op("delete-user", http.MethodDelete, "/v1/users/{user}", "Remove a user; what it has open is cut off", manage),
		func(ctx context.Context, in *userInput) (none, error) { return none{}, b.RemoveUser(ctx, in.User) })
	register(s, api, op("rotate-token", http.MethodPost, "/v1/users/{user}/token", "Make a user a new token and end the old one", manage),
		func(ctx context.Context, in *rotateInput) (wire.UserReply, error) {
			return b.RotateToken(ctx, in.User, time.Duration(in.Body.TTLSeconds)*time.Second)
		})
	register(s, api, op("grant-roles", http.MethodPost, "/v1/users/{user}/grant", "Give roles to a user", manage),
		func(ctx context.Context, in *rolesInput) (wire.UserView, error) {
			return b.Grant(ctx, in.User, in.Body)
		})
	register(s, api, op("revoke-roles", http.MethodPost, "/v1/users/{user}/revoke", "Take roles from a user; what it has open is cut off", manage),
		func(ctx context.Context, in *rolesInput) (wire.UserView, error) {
			return b.Revoke(ctx, in.User, in.Body)
		})
	register(s, api, op("list-tokens", http.MethodGet, "/v1/tokens", "List tokens, to join and for programs", manage),
		func(ctx context.Context, _ *none) (items[wire.TokenView], error) { return list(b.Tokens(ctx)) })
	register(s, api, op("revoke-token", http.MethodDelete, "/v1/tokens/{token}", "Take a token back, and those that were made with it", manage),
		func(ctx context.Context, in *tokenIDInput) (items[wire.TokenView], error) {
			return list(b.RevokeToken(ctx, in.Token))
		})
	register(s, api, op("who-am-i", http.MethodGet, "/v1/me", "Who asks, and what they may do", anyone), whoami)
	register(s, api, op("read-audit-log", http.MethodGet, "/v1/audit", "Who did what", may(access.Audit, system)),
		func(ctx context.Context, in *auditInput) (wire.AuditPage, error) {
			return b.Audit(ctx, wire.AuditQuery{Since: in.Since, User: in.User, Before: in.Before, Limit: in.Limit})
		})
}

func whoami(ctx context.Context, _ *none) (wire.WhoView, error) {
	w := access.From(ctx)
	v := wire.WhoView{Name: w.Name, Roles: wire.Roles{Admin: w.Admin, Monitor: w.Monitor}}
	roles := func(of map[string]access.Role) map[string]string {
		out := map[string]string{}
		for n, r := range of {
			out[n] = string(r)
		}
		return out
	}
	v.Namespaces, v.Clusters = roles(w.Namespaces), roles(w.Clusters)
	return v, nil
}

// rolesText is roles in words for the audit log: "developer of shop, admin".
func rolesText(r wire.Roles) string {
	var parts []string
	for n, role := range r.Namespaces {
		parts = append(parts, role+" of "+n)
	}
	for n, role := range r.Clusters {
		parts = append(parts, role+" of "+n)
	}
	slices.Sort(parts)
	if r.Monitor {
		parts = append(parts, "monitor")
	}
	if r.Admin {
		parts = append(parts, "admin")
	}
	return strings.Join(parts, ", ")
}
