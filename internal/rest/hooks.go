package rest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/wire"
)

// Hooking is the part of a Backend that is about hooks. No operation returns a secret.
// A hook of namespace "" is told of all of them.
type Hooking interface {
	// SetHook makes a hook or changes it; durable when it returns.
	SetHook(ctx context.Context, namespace, name string, r wire.HookRequest) (wire.HookView, error)
	// RotateHook gives it another secret; the one before signs too for a while.
	RotateHook(ctx context.Context, namespace, name, secret string, overlapSeconds int) (wire.HookView, error)
	RemoveHook(ctx context.Context, namespace, name string) (wire.HookView, error)
	// PauseHook keeps it from being told and asked anything, ResumeHook ends that and
	// tries again at once.
	PauseHook(ctx context.Context, namespace, name string) (wire.HookView, error)
	ResumeHook(ctx context.Context, namespace, name string) (wire.HookView, error)
	// TestHook tells or asks it something at once, and says what came of it.
	TestHook(ctx context.Context, namespace, name string) (wire.HookTested, error)
	// Hooks of all namespaces.
	Hooks(ctx context.Context) ([]wire.HookView, error)
}

type (
	hookInput struct {
		Hook      string `path:"hook" maxLength:"63" doc:"name of the hook"`
		Namespace string `query:"namespace" maxLength:"63" doc:"that the hook is of; none: it is of all"`
	}
	// setHookInput has what is asked for as bytes, so that no message about a body that
	// is not right can quote the secret in it.
	setHookInput struct {
		Hook      string `path:"hook" maxLength:"63" doc:"name of the hook"`
		Namespace string `query:"namespace" maxLength:"63" doc:"that the hook is of; none: it is of all"`
		RawBody   []byte `contentType:"application/octet-stream"`
	}
	rotateHookInput struct {
		Hook      string `path:"hook" maxLength:"63" doc:"name of the hook"`
		Namespace string `query:"namespace" maxLength:"63" doc:"that the hook is of; none: it is of all"`
		Overlap   int    `query:"overlap_seconds" doc:"for how long the secret before signs too; 0: a day, -1: not at all"`
		RawBody   []byte `contentType:"application/octet-stream"`
	}
	hooksInput struct {
		Namespace string `query:"namespace" maxLength:"63" doc:"only of this namespace"`
	}
)

// hooked is an input that is about a hook.
type hooked interface {
	hook() (namespace, name string)
}

func (in *hookInput) hook() (namespace, name string)       { return in.Namespace, in.Hook }
func (in *setHookInput) hook() (namespace, name string)    { return in.Namespace, in.Hook }
func (in *rotateHookInput) hook() (namespace, name string) { return in.Namespace, in.Hook }

func (in *hookInput) subject() (on, detail string)       { return hookSubject(in) }
func (in *setHookInput) subject() (on, detail string)    { return hookSubject(in) }
func (in *rotateHookInput) subject() (on, detail string) { return hookSubject(in) }

func hookSubject(in hooked) (on, detail string) {
	namespace, name := in.hook()
	return "hook/" + wire.HookLabel(namespace, name), ""
}

// hookOf is the namespace that a hook is of, or the root or cluster itself.
var hookOf = finder{in: reflect.TypeFor[hooked](), find: func(s *Server, q question) (access.Object, error) {
	in, ok := q.in.(hooked)
	if !ok {
		return access.Object{}, errors.New("a hook was looked for in an input that names none")
	}
	namespace, _ := in.hook()
	return s.here(ofHook(namespace)), nil
}}

func ofHook(namespace string) access.Object {
	if namespace == "" {
		return access.Object{Kind: access.System}
	}
	return access.Object{Kind: access.Namespace, Name: namespace, Namespace: namespace}
}

func (s *Server) registerHooks(api huma.API) {
	b := s.backend
	set := op("set-hook", http.MethodPut, "/v1/hooks/{hook}", "Make a hook, or change it", may(access.Hook, hookOf))
	set.MaxBodyBytes = wire.MaxHookBytes
	set.Description = "The body is a HookRequest in JSON: url, on, before, on_failure, wait_seconds, keep_seconds, plain, ca, secret, overlap_seconds. It is not described further, so that no message quotes the secret."
	register(s, api, set, func(ctx context.Context, in *setHookInput) (wire.HookView, error) {
		r, err := decodeHook(in.RawBody)
		if err != nil {
			return wire.HookView{}, err
		}
		return b.SetHook(ctx, in.Namespace, in.Hook, r)
	})
	rotate := op("rotate-hook", http.MethodPut, "/v1/hooks/{hook}/secret", "Give a hook another secret to sign with", may(access.Hook, hookOf))
	rotate.MaxBodyBytes = wire.MaxHookBytes
	register(s, api, rotate, func(ctx context.Context, in *rotateHookInput) (wire.HookView, error) {
		return b.RotateHook(ctx, in.Namespace, in.Hook, string(in.RawBody), in.Overlap)
	})
	register(s, api, op("delete-hook", http.MethodDelete, "/v1/hooks/{hook}", "Remove a hook and what waits for it", may(access.Hook, hookOf)),
		func(ctx context.Context, in *hookInput) (wire.HookView, error) {
			return b.RemoveHook(ctx, in.Namespace, in.Hook)
		})
	register(s, api, op("pause-hook", http.MethodPost, "/v1/hooks/{hook}/pause", "Tell and ask a hook nothing; what it is told of waits", may(access.Hook, hookOf)),
		func(ctx context.Context, in *hookInput) (wire.HookView, error) {
			return b.PauseHook(ctx, in.Namespace, in.Hook)
		})
	register(s, api, op("resume-hook", http.MethodPost, "/v1/hooks/{hook}/resume", "End the pause of a hook, and try again at once", may(access.Hook, hookOf)),
		func(ctx context.Context, in *hookInput) (wire.HookView, error) {
			return b.ResumeHook(ctx, in.Namespace, in.Hook)
		})
	register(s, api, op("test-hook", http.MethodPost, "/v1/hooks/{hook}/test", "Send a hook a test, and say what came of it", may(access.Hook, hookOf)),
		func(ctx context.Context, in *hookInput) (wire.HookTested, error) {
			return b.TestHook(ctx, in.Namespace, in.Hook)
		})
	register(s, api, op("list-hooks", http.MethodGet, "/v1/hooks", "List hooks, without their secrets", part(manageableHooks)),
		func(ctx context.Context, in *hooksInput) (items[wire.HookView], error) {
			all, err := b.Hooks(ctx)
			kept := all[:0:0]
			for _, v := range all {
				if in.Namespace == "" || v.Namespace == in.Namespace {
					kept = append(kept, v)
				}
			}
			return list(kept, err)
		})
}

// manageableHooks are those that who asks may change: where they lead is their
// business alone.
func manageableHooks(s *Server, who access.Who, out items[wire.HookView]) items[wire.HookView] {
	kept := []wire.HookView{}
	for _, v := range out.Items {
		if access.May(who, access.Hook, s.here(ofHook(v.Namespace))) == nil {
			kept = append(kept, v)
		}
	}
	out.Items = kept
	return out
}

// decodeHook reads what is asked of a hook. No error has a part of the secret.
func decodeHook(body []byte) (r wire.HookRequest, err error) {
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.DisallowUnknownFields()
	if err = d.Decode(&r); err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("something follows it")
		}
	}
	if err != nil {
		return wire.HookRequest{}, wire.Problemf(http.StatusUnprocessableEntity, "bad-hook", "see verge hook set --help", "the hook cannot be like that", "the body: %v", err)
	}
	return r, nil
}
