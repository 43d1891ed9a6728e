package wire

import (
	"cmp"

	"github.com/verge-edge/verge/api"
)

// NamespaceOf is the namespace of an application, also of a record that is older
// than namespaces.
func NamespaceOf(spec *api.Application) string { return cmp.Or(spec.Namespace, api.DefaultNamespace) }
