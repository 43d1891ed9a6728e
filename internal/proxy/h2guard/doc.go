// Package h2guard bounds what a peer of HTTP/2 can cost: the time of a header block, and the
// number of frames that carry nothing of a request. Neither the server of net/http nor
// package h2client bounds them.
//
// A Guard lies below either of them, follows the frames both ways, and cuts a connection
// that exceeds a bound. It copies nothing.
package h2guard
