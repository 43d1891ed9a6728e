package httpmsg

import (
	"net/http"
	"strings"
)

// Retriable says whether a status means that what was asked was not done.
func Retriable(status int) bool {
	return status == http.StatusBadGateway || status == http.StatusServiceUnavailable ||
		status == http.StatusGatewayTimeout
}

// IsEventStream answers are open without end: events.
func IsEventStream(res *http.Response) bool {
	return strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream")
}

// IsFailure says whether an answer means that who made it has failed: it speaks of the
// server, and not of what it was asked for.
func IsFailure(status int) bool {
	return status >= http.StatusInternalServerError && status != http.StatusNotImplemented &&
		status != http.StatusHTTPVersionNotSupported
}

// CallFailed are the statuses of gRPC that speak of the server: those which OpenTelemetry
// takes for errors of a server's span, but for UNIMPLEMENTED, which as 501 speaks of what it
// was asked for. DEADLINE_EXCEEDED is among them as 504 is; CANCELLED is the client's doing,
// and RESOURCE_EXHAUSTED is its quota, as 429.
var CallFailed = map[string]bool{
	"2":  true, // UNKNOWN: what a handler that fails without a status gives
	"4":  true, // DEADLINE_EXCEEDED
	"13": true, // INTERNAL
	"14": true, // UNAVAILABLE
	"15": true, // DATA_LOSS
}

// IsCall says whether an answer is one of gRPC, whose trailers say how it has ended.
func IsCall(res *http.Response) bool {
	return res.StatusCode == http.StatusOK && IsGRPC(res.Header)
}
