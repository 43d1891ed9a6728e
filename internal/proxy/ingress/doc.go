// Package ingress decides, without any socket, which published port a request at a
// gateway belongs to, and how much one client may send. It promises:
//
//  1. A host that somebody publishes exactly counts before a wildcard, and among the
//     paths of a host the longest that the path of the request begins with, by whole
//     segments, whatever else is published.
//  2. What a path is compared as is what every server takes it for: letters, digits
//     and -._~ that are needlessly encoded are decoded, nothing else is, and a path
//     with dot segments belongs to nobody where paths matter.
//  3. A client gets at most its burst at once and its rate after that, and what it is
//     refused costs it nothing. No number of clients makes the memory grow beyond a
//     bound; who comes when it is full is served.
package ingress
