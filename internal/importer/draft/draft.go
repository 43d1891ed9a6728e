package draft

import (
	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/importer/source"
)

// Draft is an application before it is written.
type Draft struct {
	App  *api.Application
	Kind Kind
	From []string
	// origins of the application and of each service: a document and a path.
	Doc     *source.Document
	Origins map[string]Origin
}

// Origin is the part of a document that something is made from.
type Origin struct {
	Doc  *source.Document
	Path []string
}
