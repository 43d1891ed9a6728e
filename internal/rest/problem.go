package rest

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/verge-edge/verge/internal/wire"
)

// problemType is the media type of every error.
const problemType = "application/problem+json"

// problemTypePrefix makes the RFC 9457 type of a problem from its code. A URN,
// because a problem must be understood where there is no web.
const problemTypePrefix = "urn:verge:problem:"

// problemBody is a wire.Problem as it goes over HTTP.
type problemBody struct {
	Type   string `json:"type" doc:"identifies the kind of problem" example:"urn:verge:problem:token-expired"`
	Title  string `json:"title" doc:"what is wrong"`
	Status int    `json:"status" doc:"HTTP status"`
	Detail string `json:"detail,omitempty" doc:"where and why"`
	Code   string `json:"code" doc:"stable name of the kind of problem" example:"token-expired"`
	Remedy string `json:"remedy,omitempty" doc:"what to do next"`
}

// Error, GetStatus and ContentType make problemBody an error that huma writes
// as it is.
func (p *problemBody) Error() string             { return p.Title }
func (p *problemBody) GetStatus() int            { return p.Status }
func (p *problemBody) ContentType(string) string { return problemType }

// GetHeaders tells when to try again where that makes sense.
func (p *problemBody) GetHeaders() http.Header {
	h := http.Header{}
	if p.Status == http.StatusTooManyRequests || p.Status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "1")
	}
	return h
}

var (
	_ huma.HeadersError      = (*problemBody)(nil)
	_ huma.StatusError       = (*problemBody)(nil)
	_ huma.ContentTypeFilter = (*problemBody)(nil)
)

func newProblemBody(p *wire.Problem) *problemBody {
	status := p.Status
	if status < 400 || status > 599 {
		status = http.StatusInternalServerError
	}
	code := p.Code
	if code == "" {
		code = "internal"
	}
	return &problemBody{
		Type: problemTypePrefix + code, Title: p.Title, Status: status,
		Detail: p.Detail, Code: code, Remedy: p.Remedy,
	}
}

// asProblem turns any error of a Backend into a problem.
func asProblem(err error) *problemBody {
	var p *wire.Problem
	if errors.As(err, &p) {
		return newProblemBody(p)
	}
	var b *problemBody
	if errors.As(err, &b) {
		return b
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return newProblemBody(wire.Problemf(http.StatusGatewayTimeout, "timeout", "try again; if it stays so, look at verge status",
			"it took too long", "%v", err))
	}
	return newProblemBody(wire.Problemf(http.StatusInternalServerError, "internal", "look at the log of this role",
		"something failed here", "%v", err))
}

// fromModel turns an error that huma found in a request into a problem. Values
// are left out: one of them may be a token.
func fromModel(m *huma.ErrorModel) *problemBody {
	code, title, remedy := "invalid-request", "the request is not valid", "the operations and their parameters are at /openapi.json"
	switch m.Status {
	case http.StatusRequestEntityTooLarge:
		code, title, remedy = "body-too-large", "the body is too large", "send less: a descriptor has at most 1 MiB, a join request 16 KiB"
	case http.StatusRequestTimeout:
		code, title, remedy = "body-too-slow", "the body came too slowly", "try again over a better connection"
	case http.StatusInternalServerError:
		code, title, remedy = "internal", "the request could not be read", "try again"
	}
	detail := []string{m.Detail}
	for _, e := range m.Errors {
		if e == nil {
			continue
		}
		if e.Location == "" {
			detail = append(detail, e.Message)
		} else {
			detail = append(detail, e.Location+": "+e.Message)
		}
	}
	return newProblemBody(&wire.Problem{Status: m.Status, Code: code, Title: title, Remedy: remedy, Detail: strings.Join(detail, "; ")})
}

// WriteProblem answers with a problem, as this interface does.
func WriteProblem(w http.ResponseWriter, p *wire.Problem) { writeProblem(w, p) }

// writeProblem answers outside of huma.
func writeProblem(w http.ResponseWriter, p *wire.Problem) {
	b := newProblemBody(p)
	data, err := json.Marshal(b)
	if err != nil { // strings and an int always encode
		data = []byte("{}")
	}
	h := w.Header()
	h.Set("Content-Type", problemType)
	maps.Copy(h, b.GetHeaders())
	w.WriteHeader(b.Status)
	// A client that is gone cannot be told.
	_, _ = w.Write(append(data, '\n'))
}
