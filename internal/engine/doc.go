// Package engine is the hands of a worker: the parent of its instances and the
// owner of its router's sockets. An agent tells it what should be; it stores
// that, acts on it, and says what is. It needs nobody to go on, and nobody to
// begin: after a power cut it starts what its files say. DESIGN.md tells how.
//
// Promises:
//
//  1. Orders are on disk before Apply returns, and are acted on until other
//     orders replace them, whatever happens to the agent.
//  2. An instance is started at most once at a time: what a dead engine may have
//     started without having noted it is ended before the instance is started
//     again.
//  3. An exit is on disk before anything is done about it, and is reported with
//     its code where this engine saw it, as unknown where nobody did.
//  4. What cannot be read is unknown, not empty: no instance is stopped because a
//     file is damaged.
//  5. The end of Run stops no instance, only Shutdown and orders do.
package engine
