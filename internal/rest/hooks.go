package rest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire"
)

// Hooks is the part of a backend that is about hooks. No operation returns a secret.
// A hook of namespace "" is told of all of them.
type Hooks interface {
	// SetHook makes a hook or changes it; durable when it returns.
	SetHook(ctx context.Context, namespace, name string, r apiv1.HookRequest) (apiv1.HookView, error)
	// RotateHook gives it another secret; the one before signs too for a while.
	RotateHook(ctx context.Context, namespace, name, secret string, overlapSeconds int) (apiv1.HookView, error)
	RemoveHook(ctx context.Context, namespace, name string) (apiv1.HookView, error)
	// PauseHook keeps it from being told and asked anything, ResumeHook ends that and
	// tries again at once.
	PauseHook(ctx context.Context, namespace, name string) (apiv1.HookView, error)
	ResumeHook(ctx context.Context, namespace, name string) (apiv1.HookView, error)
	// TestHook tells or asks it something at once, and says what came of it.
	TestHook(ctx context.Context, namespace, name string) (apiv1.HookTested, error)
	// Hooks of all namespaces.
	Hooks(ctx context.Context) ([]apiv1.HookView, error)
}

// What the operations take.
type (
	// HookIn is what DeleteHook, PauseHook, ResumeHook and TestHook take.
	HookIn struct {
		Hook      string `path:"hook" maxLength:"63" doc:"name of the hook"`
		Namespace string `query:"namespace" maxLength:"63" doc:"that the hook is of; none: it is of all"`
	}
	// SetHookIn has what is asked for as bytes, so that no message about a body that
	// is not right can quote the secret in it.
	SetHookIn struct {
		Hook      string `path:"hook" maxLength:"63" doc:"name of the hook"`
		Namespace string `query:"namespace" maxLength:"63" doc:"that the hook is of; none: it is of all"`
		RawBody   []byte `contentType:"application/octet-stream"`
	}
	// RotateHookIn is what RotateHook takes.
	RotateHookIn struct {
		Hook      string `path:"hook" maxLength:"63" doc:"name of the hook"`
		Namespace string `query:"namespace" maxLength:"63" doc:"that the hook is of; none: it is of all"`
		Overlap   int    `query:"overlap_seconds" doc:"for how long the secret before signs too; 0: a day, -1: not at all"`
		RawBody   []byte `contentType:"application/octet-stream"`
	}
)

// hooked is an input that is about a hook.
type hooked interface {
	hook() (namespace, name string)
}

func (in *HookIn) hook() (namespace, name string)       { return in.Namespace, in.Hook }
func (in *SetHookIn) hook() (namespace, name string)    { return in.Namespace, in.Hook }
func (in *RotateHookIn) hook() (namespace, name string) { return in.Namespace, in.Hook }

// Subject implements Subjecter.
func (in *HookIn) Subject() (on, detail string) { return hookSubject(in) }

// Subject implements Subjecter.
func (in *SetHookIn) Subject() (on, detail string) { return hookSubject(in) }

// Subject implements Subjecter.
func (in *RotateHookIn) Subject() (on, detail string) { return hookSubject(in) }

func hookSubject(in hooked) (on, detail string) {
	namespace, name := in.hook()
	return "hook/" + wire.HookLabel(namespace, name), ""
}

// hookOf is the namespace that a hook is of, or the root or cluster itself.
var hookOf = Finder{in: reflect.TypeFor[hooked](), Find: func(s Site, q Question) (access.Object, error) {
	in, ok := q.In.(hooked)
	if !ok {
		return access.Object{}, errors.New("a hook was looked for in an input that names none")
	}
	namespace, _ := in.hook()
	return s.Here(ofHook(namespace)), nil
}}

func ofHook(namespace string) access.Object {
	if namespace == "" {
		return access.Object{Kind: access.System}
	}
	return ofNamespaceNamed(namespace)
}

// Operations on hooks.
var (
	SetHook = define("set-hook", "PUT /v1/hooks/{hook}", "Make a hook, or change it", may(access.Hook, hookOf),
		func(ctx context.Context, b Hooks, in *SetHookIn) (apiv1.HookView, error) {
			r, err := decodeHook(in.RawBody)
			if err != nil {
				return apiv1.HookView{}, err
			}
			return b.SetHook(ctx, in.Namespace, in.Hook, r)
		}, maxBody(wire.MaxHookBytes), described("The body is a HookRequest in JSON: url, on, before, on_failure, wait_seconds, "+
			"keep_seconds, plain, ca, secret, overlap_seconds. It is not described further, so that no message quotes the secret."))
	RotateHook = define("rotate-hook", "PUT /v1/hooks/{hook}/secret", "Give a hook another secret to sign with", may(access.Hook, hookOf),
		func(ctx context.Context, b Hooks, in *RotateHookIn) (apiv1.HookView, error) {
			return b.RotateHook(ctx, in.Namespace, in.Hook, string(in.RawBody), in.Overlap)
		}, maxBody(wire.MaxHookBytes))
	DeleteHook = define("delete-hook", "DELETE /v1/hooks/{hook}", "Remove a hook and what waits for it", may(access.Hook, hookOf),
		func(ctx context.Context, b Hooks, in *HookIn) (apiv1.HookView, error) {
			return b.RemoveHook(ctx, in.Namespace, in.Hook)
		})
	PauseHook = define("pause-hook", "POST /v1/hooks/{hook}/pause", "Pause a hook: it is not asked, and its notices wait",
		may(access.Hook, hookOf),
		func(ctx context.Context, b Hooks, in *HookIn) (apiv1.HookView, error) {
			return b.PauseHook(ctx, in.Namespace, in.Hook)
		})
	ResumeHook = define("resume-hook", "POST /v1/hooks/{hook}/resume", "End the pause of a hook, and try again at once",
		may(access.Hook, hookOf),
		func(ctx context.Context, b Hooks, in *HookIn) (apiv1.HookView, error) {
			return b.ResumeHook(ctx, in.Namespace, in.Hook)
		})
	TestHook = define("test-hook", "POST /v1/hooks/{hook}/test", "Send a hook a test, and say what came of it", may(access.Hook, hookOf),
		func(ctx context.Context, b Hooks, in *HookIn) (apiv1.HookTested, error) {
			return b.TestHook(ctx, in.Namespace, in.Hook)
		})
	// Where hooks lead is the business alone of those who may change them.
	ListHooks = define("list-hooks", "GET /v1/hooks", "List hooks, without their secrets",
		eachTo(access.Hook, func(v apiv1.HookView) access.Object { return ofHook(v.Namespace) }),
		func(ctx context.Context, b Hooks, in *OfNamespaceIn) (Items[apiv1.HookView], error) {
			all, err := b.Hooks(ctx)
			kept := all[:0:0]
			for _, v := range all {
				if in.Namespace == "" || v.Namespace == in.Namespace {
					kept = append(kept, v)
				}
			}
			return list(kept, err)
		})
)

// decodeHook reads what is asked of a hook. No error has a part of the secret.
func decodeHook(body []byte) (r apiv1.HookRequest, err error) {
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.DisallowUnknownFields()
	if err = d.Decode(&r); err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("something follows it")
		}
	}
	if err != nil {
		return apiv1.HookRequest{}, wire.Problemf(http.StatusUnprocessableEntity, "bad-hook", "see verge hook set --help", "the hook cannot be like that", "the body: %v", err)
	}
	return r, nil
}
