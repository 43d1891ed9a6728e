package rest

import "context"

type callerKey struct{}

// Caller is who sent the request that ctx is of, as the log names it; "" where
// nobody did.
func Caller(ctx context.Context) string {
	who, _ := ctx.Value(callerKey{}).(string)
	return who
}

func withCaller(ctx context.Context, who string) context.Context {
	return context.WithValue(ctx, callerKey{}, who)
}
