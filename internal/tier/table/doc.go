// Package table keeps the stored state of a tier: typed records, in memory and in a
// bus.Store, by the prefixes of their keys.
//
// A package that owns a kind of records adds it to the schema of its tier, once:
//
//	var upgrades = table.Add[upgrade](&state.Schema, records.Kind{Prefix: "upgrade.", Drop: "…"})
//
// Everything else follows from that: records of the kind are loaded, copied for a
// rehearsal, changed in a transaction, encoded and merged with all others, and
// `verge records` knows what follows when one is dropped.
//
// What the package remembers beside records, and what it works out in one transaction, are a
// Memory and a Scratch of the same schema: no struct of the tier has a field for them.
//
// Promises:
//
//  1. A transaction changes nothing that anybody else sees before Done, which its owner
//     calls once Encode's groups are durable.
//  2. Records are values: who changes one puts another. So a clone of a DB shares its
//     records, and copies nothing but the maps.
//  3. Records of one group are stored together, or, if one of them cannot be encoded, left
//     together as they are; records of other groups are not held up.
//  4. Groups are in the order of their stages, then in that in which their kinds were added,
//     and in the order of keys within a kind.
//
// A DB and its transactions belong to one goroutine at a time: their owner has the lock.
package table
