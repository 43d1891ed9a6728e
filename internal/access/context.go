package access

import "context"

type key struct{}

// With is ctx for a request of w.
func With(ctx context.Context, w Who) context.Context { return context.WithValue(ctx, key{}, w) }

// From is who asks. Where nobody is known it is the zero value, which may do
// nothing: what a role does by itself it does without asking.
func From(ctx context.Context) Who {
	w, _ := ctx.Value(key{}).(Who)
	return w
}
