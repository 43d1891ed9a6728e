package rest

import (
	"context"
	"io"
	"strings"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire"
)

// Objects is the part of a backend that is about objects.
type Objects interface {
	// GetObject returns an object and its content, to be closed.
	GetObject(ctx context.Context, namespace, name string) (apiv1.ObjectView, io.ReadSeekCloser, error)
	// PutObject stores an object; durable when it returns, and nothing has changed
	// unless it returns nil.
	PutObject(ctx context.Context, in ObjectUpload) (apiv1.ObjectView, error)
	// RemoveObject returns what was removed.
	RemoveObject(ctx context.Context, namespace, name string) (apiv1.ObjectView, error)
	// Objects that are here, of a namespace, of all where it is "".
	Objects(ctx context.Context, namespace string) ([]apiv1.ObjectView, error)
}

// ObjectUpload is an object that is to be put.
type ObjectUpload struct {
	Namespace, Name, Type string
	// Size is -1 where nobody says; Digest (SHA-256, hexadecimal) is "" there.
	Size   int64
	Digest string
	Body   io.Reader
}

const (
	// ObjectHeader has the apiv1.ObjectView of an object beside its content.
	ObjectHeader = "Verge-Object"
	// DigestHeader has the digest of an object that is put.
	DigestHeader  = "Content-Digest"
	objectPattern = " " + wire.ObjectsPath + "{namespace}/{name...}"
)

// Operations on objects.
var (
	ListObjects = define("list-objects", "GET "+strings.TrimSuffix(wire.ObjectsPath, "/"), "List the objects that are here",
		eachTo(access.Fetch, func(v apiv1.ObjectView) access.Object { return ofNamespaceNamed(v.Namespace) }),
		func(ctx context.Context, b Objects, in *OfNamespaceIn) (Items[apiv1.ObjectView], error) {
			return list(b.Objects(ctx, in.Namespace))
		})

	// GetObject is HEAD too. A worker that puts what its instances made must not fill the
	// audit log: what people put and remove is recorded by the handlers.
	GetObject    = streamOf[Objects]("get-object", "GET"+objectPattern, may(access.Fetch, namespace("namespace")).forNodes())
	PutObject    = streamOf[Objects]("put-object", "PUT"+objectPattern, may(access.Store, namespace("namespace")).silent().forNodes())
	DeleteObject = streamOf[Objects]("delete-object", "DELETE"+objectPattern, may(access.Store, namespace("namespace")).silent().forNodes())

	// StoreObjects is the need of who puts or removes an object, for the audit log.
	StoreObjects = may(access.Store, namespace("namespace"))
	// ReadVolumes is the need of who reads an object that holds what is in a volume: who may
	// only look may not look into volumes either.
	ReadVolumes = may(access.Exec, namespace("namespace"))
)
