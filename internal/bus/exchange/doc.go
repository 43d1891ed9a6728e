// Package exchange is the one protocol by which two tiers keep each other's
// state: the same between worker and cluster as between cluster and root.
//
// The lower side opens every exchange with a report: the revision of its desired
// state, and what changed in its observed state since the last acknowledged
// revision. The reply says what its desired state should be and what has been
// taken over. If the desired revisions differ, the lower side fetches what
// changed, stores it, and reports again. The upper side can only nudge: a nudge
// that is lost costs latency, never correctness.
//
// Promises:
//
//  1. Nothing waits for a watch or a mirror: both sides hold revisions, and any
//     single report and reply is enough to find out what is missing.
//  2. What was not acknowledged is sent again. What is acknowledged is held by
//     the upper side until its process ends; a new process knows nothing and is
//     sent everything.
//  3. A store restored from an older copy is noticed by either side
//     (wire.Timeline) and leads to a full exchange, after which no key of the
//     other history remains.
//  4. An idle exchange is one small request and one small reply every λ.
package exchange
