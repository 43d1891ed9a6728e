package enroll

import (
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/pki/tokens"
)

// Kinds of records of tokens.
func Kinds() []records.Kind {
	const drop = "the token lets nobody in, and verge token ls does not show it: make another one"
	return []records.Kind{
		{Prefix: keyToken, Fate: records.Aside, Read: records.Reads[tokens.Record], Drop: drop},
		{Prefix: keyBearer, Fate: records.Aside, Read: records.Reads[bearerRecord], Drop: drop},
	}
}
