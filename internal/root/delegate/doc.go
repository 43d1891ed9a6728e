// Package delegate derives the shares: what each cluster is to run.
//
// Promises:
//
//  1. A share follows from the instances, the application and its rollout, and is stored after
//     them.
//  2. A share that says nothing new is not stored again.
package delegate
