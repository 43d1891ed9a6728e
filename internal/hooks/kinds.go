package hooks

import (
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/record"
)

// Kinds of records of hooks.
func Kinds() []records.Kind {
	return []records.Kind{
		{Prefix: keyHook, Fate: records.Stops, Security: true, Read: records.Reads[record.Hook],
			Drop: "the hook receives nothing, and is not asked before changes: create it again (verge hook set) " +
				"before others change something"},
		{Prefix: keyQueue, Fate: records.Aside, Read: records.Reads[record.HookItem],
			Drop: "one notice is not delivered"},
		{Prefix: keyMark, Fate: records.Aside, Read: records.Reads[record.HookMark],
			Drop: "what was told of one subject may be told again"},
	}
}
