// Package secrets decides which secrets each worker of a cluster is given, and seals them for it.
//
// Promises:
//
//  1. A worker is given the secrets that its orders name, and, if it may be a gateway, the
//     certificates of published hosts; what nothing needs any more is taken back.
//  2. Values are in no memory but while they are sealed: tables keep records without them.
//  3. A value is sealed again only if it or the key of its worker has changed.
package secrets
