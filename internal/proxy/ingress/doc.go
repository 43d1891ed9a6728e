// Package ingress decides, without any socket, which published port a request at a gateway belongs
// to, and how much one client may send.
//
// Promises:
//
//  1. A host that is published exactly comes before a wildcard. Among the paths of a host the
//     longest that the request's path begins with counts, by whole segments.
//  2. Paths are compared in the form in which every server understands them: letters, digits and
//     -._~ that are needlessly encoded are decoded, and nothing else is. A path with dot segments
//     belongs to nobody if paths matter.
//  3. A client gets at most its burst at once and its rate after that; a refusal costs it
//     nothing. Memory is bounded for any number of clients, and clients beyond that are served.
package ingress
