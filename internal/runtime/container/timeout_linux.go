package container

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// wedgedAfter is how long containerd may take for what it does at once when it is well.
const wedgedAfter = time.Minute

// slow begin the calls that last for as long as what they are about, or that must not be
// given up half-way: containerd leaves the shim of a task whose caller has gone.
var slow = []string{"/containerd.services.tasks.", "/containerd.services.diff."}

// callTimeout makes an error of a call that containerd does not answer: one that is wedged
// accepts connections, and would be waited for until it is ended.
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
