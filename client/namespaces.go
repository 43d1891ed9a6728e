package client

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/verge-edge/verge/internal/rest"
)

// Namespaces part what belongs to different people.
type Namespaces struct{ group }

// List is all that may be seen.
func (n Namespaces) List(ctx context.Context) ([]Namespace, error) {
	return callList(ctx, n.group, rest.ListNamespaces, rest.None{})
}

// Get is one of them.
func (n Namespaces) Get(ctx context.Context, name string) (Namespace, error) {
	return call(ctx, n.group, rest.GetNamespace, rest.NamespaceIn{Namespace: name})
}

// Create makes one; a name that is taken is an error.
func (n Namespaces) Create(ctx context.Context, q NamespaceRequest) (Namespace, error) {
	return call(ctx, n.group, rest.CreateNamespace, rest.CreateNamespaceIn{Body: q})
}

// SetQuota replaces all bounds of a namespace.
func (n Namespaces) SetQuota(ctx context.Context, name string, q Quota) (Namespace, error) {
	return call(ctx, n.group, rest.SetQuota, rest.QuotaIn{Namespace: name, Body: q})
}

// SetStanding replaces what a namespace may claim beside others.
func (n Namespaces) SetStanding(ctx context.Context, name string, s Standing) (Namespace, error) {
	return call(ctx, n.group, rest.SetStanding, rest.StandingIn{Namespace: name, Body: s})
}

// Remove removes one that nothing belongs to, with all roles in it.
func (n Namespaces) Remove(ctx context.Context, name string) error {
	return callNone(ctx, n.group, rest.DeleteNamespace, rest.NamespaceIn{Namespace: name})
}

// Secrets are values for instances. No operation returns one.
type Secrets struct{ group }

// Set sets the value of a secret. Instances find it at their next start.
func (s Secrets) Set(ctx context.Context, namespace, name string, value []byte) (Secret, error) {
	return call(ctx, s.group, rest.SetSecret, rest.SetSecretIn{Namespace: namespace, Secret: name, RawBody: value})
}

// Remove removes a secret, and returns what it was.
func (s Secrets) Remove(ctx context.Context, namespace, name string) (Secret, error) {
	return call(ctx, s.group, rest.DeleteSecret, rest.SecretIn{Namespace: namespace, Secret: name})
}

// List is the secrets of a namespace, of all in which they may be used where it is "".
func (s Secrets) List(ctx context.Context, namespace string) ([]Secret, error) {
	return callList(ctx, s.group, rest.ListSecrets, rest.OfNamespaceIn{Namespace: namespace})
}

// Hooks are told of what happens, and asked before it does. One of namespace "" is of all.
type Hooks struct{ group }

// Set makes a hook or changes it.
func (h Hooks) Set(ctx context.Context, namespace, name string, q HookRequest) (Hook, error) {
	data, err := json.Marshal(q)
	if err != nil {
		return Hook{}, fmt.Errorf("encode the hook: %w", err)
	}
	return call(ctx, h.group, rest.SetHook, rest.SetHookIn{Hook: name, Namespace: namespace, RawBody: data})
}

// Rotate gives a hook another secret to sign with. The one before signs too for some seconds;
// 0 is a day, -1 not at all.
func (h Hooks) Rotate(ctx context.Context, namespace, name, secret string, overlapSeconds int) (Hook, error) {
	return call(ctx, h.group, rest.RotateHook, rest.RotateHookIn{Hook: name, Namespace: namespace, Overlap: overlapSeconds, RawBody: []byte(secret)})
}

// Remove removes a hook and what waits for it, and returns what it was.
func (h Hooks) Remove(ctx context.Context, namespace, name string) (Hook, error) {
	return call(ctx, h.group, rest.DeleteHook, rest.HookIn{Hook: name, Namespace: namespace})
}

// Pause keeps a hook from being told and asked anything.
func (h Hooks) Pause(ctx context.Context, namespace, name string) (Hook, error) {
	return call(ctx, h.group, rest.PauseHook, rest.HookIn{Hook: name, Namespace: namespace})
}

// Resume ends that, and tries again at once.
func (h Hooks) Resume(ctx context.Context, namespace, name string) (Hook, error) {
	return call(ctx, h.group, rest.ResumeHook, rest.HookIn{Hook: name, Namespace: namespace})
}

// Test sends a hook a test, and says what came of it.
func (h Hooks) Test(ctx context.Context, namespace, name string) (HookTest, error) {
	return call(ctx, h.group, rest.TestHook, rest.HookIn{Hook: name, Namespace: namespace})
}

// List is all that may be changed.
func (h Hooks) List(ctx context.Context) ([]Hook, error) {
	return callList(ctx, h.group, rest.ListHooks, rest.OfNamespaceIn{})
}

// Users are those who may ask.
type Users struct{ group }

// Create makes a user and its first token; a name that is taken is an error.
func (u Users) Create(ctx context.Context, q UserRequest) (UserReply, error) {
	return call(ctx, u.group, rest.CreateUser, rest.CreateUserIn{Body: q})
}

// RotateToken makes a user a new token and ends the old one; ttl 0 is the default.
func (u Users) RotateToken(ctx context.Context, name string, ttl time.Duration) (UserReply, error) {
	return call(ctx, u.group, rest.RotateToken, rest.RotateIn{User: name, Body: RotateRequest{TTLSeconds: int(ttl / time.Second)}})
}

// Remove removes a user; what it has open is cut off.
func (u Users) Remove(ctx context.Context, name string) error {
	return callNone(ctx, u.group, rest.DeleteUser, rest.UserIn{User: name})
}

// Grant gives roles to a user.
func (u Users) Grant(ctx context.Context, name string, r Roles) (User, error) {
	return call(ctx, u.group, rest.GrantRoles, rest.RolesIn{User: name, Body: r})
}

// Revoke takes roles from a user; what it has open is cut off.
func (u Users) Revoke(ctx context.Context, name string, r Roles) (User, error) {
	return call(ctx, u.group, rest.RevokeRoles, rest.RolesIn{User: name, Body: r})
}

// List is all.
func (u Users) List(ctx context.Context) ([]User, error) {
	return callList(ctx, u.group, rest.ListUsers, rest.None{})
}

// Get is one of them.
func (u Users) Get(ctx context.Context, name string) (User, error) {
	return call(ctx, u.group, rest.GetUser, rest.UserIn{User: name})
}

// WhoAmI says who asks, and what they may do.
func (u Users) WhoAmI(ctx context.Context) (Identity, error) {
	return call(ctx, u.group, rest.WhoAmI, rest.None{})
}

// Tokens are given to nodes that join, and to programs.
type Tokens struct{ group }

// Create makes one.
func (t Tokens) Create(ctx context.Context, q TokenRequest) (TokenReply, error) {
	return call(ctx, t.group, rest.CreateToken, rest.TokenIn{Body: q})
}

// List is those that were made, without what is secret of them.
func (t Tokens) List(ctx context.Context) ([]Token, error) {
	return callList(ctx, t.group, rest.ListTokens, rest.None{})
}

// Revoke revokes a token, and those that were made with it. id is as it is listed, or at least
// its first 8 characters.
func (t Tokens) Revoke(ctx context.Context, id string) ([]Token, error) {
	return callList(ctx, t.group, rest.RevokeToken, rest.TokenIDIn{Token: id})
}
