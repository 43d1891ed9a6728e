// Package quorumtest simulates the servers of a tier: internal/quorum/core on
// internal/quorum/wal, above disks, a network and clocks of its own. One goroutine takes events
// from one queue, and all chance comes from one seed: a seed gives the same run each time, to
// the last message, on every machine.
//
// Run has clients write and read while a nemesis kills, freezes and cuts off servers, cuts
// their power between any two operations of their disks, loses, repeats and reorders messages,
// damages, fills and stalls disks, and changes the members. Then everything is healed. Checked
// is, all the time:
//
//   - What was acknowledged is on the disks of a majority, and is there in the end.
//   - Servers apply the same records in the same order, each once.
//   - There is one leader per term; a server votes once per term, and never goes back to a
//     lower one.
//   - What clients saw is linearizable, key by key (porcupine).
//   - A write succeeds within five seconds after healing.
//   - The library never panics.
//
// A Bug is a fault that a server could have, made here and not in the program: tests show that
// each is found.
package quorumtest
