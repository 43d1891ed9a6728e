package objects

import (
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/wire"
)

// Kinds of records of objects.
func Kinds() []records.Kind {
	return []records.Kind{
		{Prefix: keyObject, Fate: records.Aside, Read: records.Reads[wire.Object], Drop: "the object is not there any more, and its content goes with the next start: put it again"},
		{Prefix: keyCopy, Fate: records.Again, Read: records.Reads[wire.Object], Drop: "the copy is fetched again when somebody asks for it"},
	}
}
