// Package localedit is the changes that people make in a cluster that cannot reach its root:
// they hold here, are reported to the root, and end as it says.
//
// Promises:
//
//  1. A change that was acknowledged is reported to the root until the root has taken or refused
//     it. What it refuses is kept as a conflict until somebody acknowledges that.
//  2. Nothing that the root has decided is changed: what holds is merged from both.
package localedit
