package rest

import (
	"context"
	"encoding/json"
	"errors"
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

func (p *problemBody) Error() string { return p.Title }

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

// invalid is the answer to a request in which something is wrong. Values
// are left out: one of them may be a token.
func invalid(status int, what string, wrong ...error) *problemBody {
	code, title, remedy := "invalid-request", "the request is not valid", "the operations and their parameters are at /openapi.json"
	switch status {
	case http.StatusRequestEntityTooLarge:
		code, title, remedy = "body-too-large", "the body is too large", "send less: a descriptor has at most 1 MiB, a join request 16 KiB"
	case http.StatusRequestTimeout:
		code, title, remedy = "body-too-slow", "the body came too slowly", "try again over a better connection"
	case http.StatusInternalServerError:
		code, title, remedy = "internal", "the request could not be read", "try again"
	}
	detail := []string{what}
	for _, err := range wrong {
		var d *huma.ErrorDetail
		if errors.As(err, &d) {
			detail = append(detail, d.Location+": "+d.Message)
		} else {
			detail = append(detail, err.Error())
		}
	}
	return newProblemBody(&wire.Problem{Status: status, Code: code, Title: title, Remedy: remedy, Detail: strings.Join(detail, "; ")})
}

// WriteProblem answers with a problem, as this interface does.
func WriteProblem(w http.ResponseWriter, p *wire.Problem) { writeProblem(w, p) }

func writeProblem(w http.ResponseWriter, p *wire.Problem) { newProblemBody(p).write(w) }

// write answers with the problem.
func (p *problemBody) write(w http.ResponseWriter) {
	data, err := json.Marshal(p)
	if err != nil { // strings and an int always encode
		data = []byte("{}")
	}
	h := w.Header()
	h.Set("Content-Type", problemType)
	if p.Status == http.StatusTooManyRequests || p.Status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "1")
	}
	w.WriteHeader(p.Status)
	// A client that is gone cannot be told.
	_, _ = w.Write(append(data, '\n'))
}
