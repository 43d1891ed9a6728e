package rest

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire"
)

// Users is the part of a backend that is about who may use it.
type Users interface {
	// CreateUser makes a user and its first token; a name that is taken is an error.
	CreateUser(ctx context.Context, r apiv1.UserRequest) (apiv1.UserReply, error)
	// RotateToken makes a new token and ends the old one; ttl 0 is the usual.
	RotateToken(ctx context.Context, name string, ttl time.Duration) (apiv1.UserReply, error)
	RemoveUser(ctx context.Context, name string) error
	// Grant adds roles, Revoke takes away; a role that is not there is an error.
	Grant(ctx context.Context, name string, r wire.Roles) (apiv1.UserView, error)
	Revoke(ctx context.Context, name string, r wire.Roles) (apiv1.UserView, error)
	Users(ctx context.Context) ([]apiv1.UserView, error)
	User(ctx context.Context, name string) (apiv1.UserView, error)
}

// Tokens is the part of a backend that is about tokens, to join and for programs.
type Tokens interface {
	CreateToken(ctx context.Context, r apiv1.TokenRequest) (apiv1.TokenReply, error)
	// Tokens are those that were made here, without what is secret of them.
	Tokens(ctx context.Context) ([]apiv1.TokenView, error)
	// RevokeToken revokes one, and those that were made with it; id is as in TokenView, or
	// enough of its beginning. It returns what was revoked.
	RevokeToken(ctx context.Context, id string) ([]apiv1.TokenView, error)
}

// Audit is the part of a backend that reads its audit log.
type Audit interface {
	Audit(ctx context.Context, q apiv1.AuditQuery) (apiv1.AuditPage, error)
}

// What the operations take.
type (
	// CreateUserIn is what CreateUser takes.
	CreateUserIn struct{ Body apiv1.UserRequest }
	// UserIn is what GetUser and DeleteUser take.
	UserIn struct {
		User string `path:"user" maxLength:"63" doc:"name of the user"`
	}
	// RotateIn is what RotateToken takes.
	RotateIn struct {
		User string `path:"user" maxLength:"63" doc:"name of the user"`
		Body apiv1.RotateRequest
	}
	// RolesIn is what GrantRoles and RevokeRoles take.
	RolesIn struct {
		User string `path:"user" maxLength:"63" doc:"name of the user"`
		Body wire.Roles
	}
	// TokenIn is what CreateToken takes.
	TokenIn struct{ Body apiv1.TokenRequest }
	// TokenIDIn is what RevokeToken takes.
	TokenIDIn struct {
		Token string `path:"token" maxLength:"64" doc:"id of the token, or at least its first 8 characters"`
	}
	// AuditIn is what ReadAuditLog takes.
	AuditIn struct {
		Since  time.Time `query:"since" doc:"only entries from this time on"`
		User   string    `query:"who" maxLength:"128" doc:"only of this user"`
		Before uint64    `query:"before" doc:"only entries with a lower number"`
		Limit  int       `query:"limit" minimum:"0" maximum:"1000" doc:"the newest of them, at most this many; 0: 1000"`
	}
)

// Subject implements Subjecter.
func (in *CreateUserIn) Subject() (on, detail string) {
	return userSubject(in.Body.Name), rolesText(in.Body.Roles)
}

// Subject implements Subjecter.
func (in *UserIn) Subject() (on, detail string) { return userSubject(in.User), "" }

// Subject implements Subjecter.
func (in *RotateIn) Subject() (on, detail string) { return userSubject(in.User), "" }

// Subject implements Subjecter.
func (in *RolesIn) Subject() (on, detail string) { return userSubject(in.User), rolesText(in.Body) }

func userSubject(name string) string { return string(access.User) + "/" + name }

// Subject implements Subjecter.
func (in *TokenIn) Subject() (on, detail string) {
	if in.Body.Cluster != "" {
		return "cluster/" + in.Body.Cluster, "token of kind " + in.Body.Kind
	}
	if in.Body.Plugin != "" {
		return "plugin/" + in.Body.Plugin, "token of kind " + in.Body.Kind
	}
	if in.Body.Gateway {
		return "token", "of kind " + in.Body.Kind + ", which may be a gateway"
	}
	return "token", "of kind " + in.Body.Kind
}

// Subject implements Subjecter.
func (in *TokenIDIn) Subject() (on, detail string) {
	return "token/" + strings.TrimPrefix(in.Token, "token/"), ""
}

// allUsers: what is about users is for administrators alone.
var allUsers = Finder{Find: func(s Site, _ Question) (access.Object, error) {
	return s.Here(access.Object{Kind: access.User}), nil
}}

// Operations on users, tokens and the audit log.
var (
	CreateUser = define("create-user", "POST /v1/users", "Make a user", may(access.Manage, allUsers),
		func(ctx context.Context, b Users, in *CreateUserIn) (apiv1.UserReply, error) {
			return b.CreateUser(ctx, in.Body)
		})
	ListUsers = define("list-users", "GET /v1/users", "List users", may(access.Manage, allUsers),
		func(ctx context.Context, b Users, _ *None) (Items[apiv1.UserView], error) { return list(b.Users(ctx)) })
	GetUser = define("get-user", "GET /v1/users/{user}", "A user and its roles", may(access.Manage, allUsers),
		func(ctx context.Context, b Users, in *UserIn) (apiv1.UserView, error) { return b.User(ctx, in.User) })
	DeleteUser = define("delete-user", "DELETE /v1/users/{user}", "Remove a user; what it has open is cut off", may(access.Manage, allUsers),
		func(ctx context.Context, b Users, in *UserIn) (None, error) {
			return None{}, b.RemoveUser(ctx, in.User)
		})
	RotateToken = define("rotate-token", "POST /v1/users/{user}/token", "Make a user a new token and end the old one",
		may(access.Manage, allUsers),
		func(ctx context.Context, b Users, in *RotateIn) (apiv1.UserReply, error) {
			return b.RotateToken(ctx, in.User, time.Duration(in.Body.TTLSeconds)*time.Second)
		})
	GrantRoles = define("grant-roles", "POST /v1/users/{user}/grant", "Give roles to a user", may(access.Manage, allUsers),
		func(ctx context.Context, b Users, in *RolesIn) (apiv1.UserView, error) {
			return b.Grant(ctx, in.User, in.Body)
		})
	RevokeRoles = define("revoke-roles", "POST /v1/users/{user}/revoke", "Take roles from a user; what it has open is cut off",
		may(access.Manage, allUsers),
		func(ctx context.Context, b Users, in *RolesIn) (apiv1.UserView, error) {
			return b.Revoke(ctx, in.User, in.Body)
		})
	WhoAmI = define[any, None, apiv1.WhoView]("who-am-i", "GET /v1/me", "Who asks, and what they may do", anyone, whoami)

	CreateToken = define("create-token", "POST /v1/tokens", "Make a token", may(access.Admit, about(ofToken)),
		func(ctx context.Context, b Tokens, in *TokenIn) (apiv1.TokenReply, error) {
			return b.CreateToken(ctx, in.Body)
		})
	ListTokens = define("list-tokens", "GET /v1/tokens", "List tokens, to join and for programs", may(access.Manage, allUsers),
		func(ctx context.Context, b Tokens, _ *None) (Items[apiv1.TokenView], error) {
			return list(b.Tokens(ctx))
		})
	RevokeToken = define("revoke-token", "DELETE /v1/tokens/{token}", "Take a token back, and those that were made with it",
		may(access.Manage, allUsers),
		func(ctx context.Context, b Tokens, in *TokenIDIn) (Items[apiv1.TokenView], error) {
			return list(b.RevokeToken(ctx, in.Token))
		})

	ReadAuditLog = define("read-audit-log", "GET /v1/audit", "Who did what", may(access.Audit, system),
		func(ctx context.Context, b Audit, in *AuditIn) (apiv1.AuditPage, error) {
			return b.Audit(ctx, apiv1.AuditQuery{Since: in.Since, User: in.User, Before: in.Before, Limit: in.Limit})
		})
)

// ofToken is what a token that is asked for lets its holder into.
func ofToken(in *TokenIn) access.Object {
	switch in.Body.Kind {
	case "worker", "plugin":
		return access.Object{Kind: access.Cluster}
	case "cluster":
		return access.Object{Kind: access.System}
	}
	// A token for programs is as good as who makes it: an administrator's.
	return access.Object{Kind: access.User}
}

func whoami(ctx context.Context, _ any, _ *None) (apiv1.WhoView, error) {
	w := access.From(ctx)
	v := apiv1.WhoView{Name: w.Name, Roles: wire.Roles{Admin: w.Admin, Monitor: w.Monitor}}
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

// NoGatewayToken refuses a token that is to make a gateway of what is no worker.
func NoGatewayToken(kind string) error {
	return wire.Problemf(400, "no-gateway", "ask at the cluster for a token of kind worker: verge token create --worker --gateway",
		"the token was not made", "only a worker can be a gateway, and the token is of kind %.20s", kind)
}

// OneUseToken refuses a token for several nodes of which each needs its own.
func OneUseToken() error {
	return wire.Problemf(400, "one-use", "ask at the cluster for a token of kind worker, without gateway: verge token create --worker --uses N",
		"the token was not made", "only a token with which workers join that are no gateways can be for several")
}
