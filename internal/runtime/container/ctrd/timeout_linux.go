package ctrd

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// wedgedAfter bounds calls that a healthy containerd answers at once.
const wedgedAfter = time.Minute

// slow are prefixes of calls that last as long as their work, or that must not be cancelled
// half-way: containerd leaves behind the shim of a task whose caller has gone.
var slow = []string{"/containerd.services.tasks.", "/containerd.services.diff."}

// callTimeout bounds calls: a hung containerd accepts connections and never answers.
func callTimeout(most time.Duration) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, call grpc.UnaryInvoker,
		opts ...grpc.CallOption) error {
		for _, s := range slow {
			if strings.HasPrefix(method, s) {
				return call(ctx, method, req, reply, cc, opts...)
			}
		}
		bounded, cancel := context.WithTimeout(ctx, most)
		defer cancel()
		err := call(bounded, method, req, reply, cc, opts...)
		if err != nil && ctx.Err() == nil && bounded.Err() != nil {
			return status.Errorf(codes.Unavailable, "it has not answered %s for %s", method, most)
		}
		return err
	}
}
