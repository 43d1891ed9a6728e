// Package call is one request on its way to an instance, whatever carries it: which endpoint
// is asked, whether it is asked again elsewhere, what is learnt from the answer, and what is
// answered if no instance did. The drivers, packages forward and fastpath, do the talking.
//
// What was sent is sent again only if the request is idempotent, its body is all there, and
// the retry budget of its service allows it; what was not sent may always go elsewhere.
package call
