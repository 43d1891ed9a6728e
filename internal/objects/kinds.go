package objects

import (
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/record"
)

// Kinds of records of objects.
func Kinds() []records.Kind {
	return []records.Kind{
		{Prefix: keyObject, Fate: records.Aside, Read: records.Reads[record.Object],
			Drop: "the object is lost, and its content is removed at the next start: put it again"},
		{Prefix: keyCopy, Fate: records.Again, Read: records.Reads[record.Object],
			Drop: "the copy is fetched again when somebody asks for it"},
	}
}
