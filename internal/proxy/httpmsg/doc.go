// Package httpmsg has what a router checks, changes, and answers in messages of HTTP,
// whichever driver carries them: validation beyond that of net/http, header fields between
// client, router and instance, load reports, and problem documents (RFC 9457, or a status
// of gRPC).
package httpmsg
