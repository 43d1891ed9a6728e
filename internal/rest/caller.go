package rest

import (
	"context"

	"github.com/verge-edge/verge/internal/access"
)

// Caller is the name of who asked for the operation of ctx; "" if nobody is known.
func Caller(ctx context.Context) string { return access.From(ctx).Name }
