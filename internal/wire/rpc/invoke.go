package rpc

// MaxInvokeBytes bounds the body of an Invocation, and the part of its answer that is carried,
// so that messages fit everywhere on the way.
const MaxInvokeBytes = 512 << 10

// MaxInvokeMs is how long an Invocation may take.
const MaxInvokeMs = 60_000

// Invocation is a request to the service of an instance. Its worker's router forwards it like
// any other: to any instance of the service, even a sleeping one. It travels with the tiers'
// own messages, so no address has to be reachable.
type Invocation struct {
	Method string              `json:"method,omitempty" maxLength:"16" pattern:"^[A-Z]*$" doc:"GET, or POST where there is a body"`
	Path   string              `json:"path,omitempty" maxLength:"8192" doc:"with its query; / where it is left out"`
	Port   string              `json:"port,omitempty" maxLength:"63" doc:"the first port where it is left out"`
	Header map[string][]string `json:"header,omitempty" maxProperties:"100" doc:"fields of the request"`
	Body   []byte              `json:"data,omitempty" maxLength:"700000" doc:"at most 512 KiB before the encoding"`
	// TimeoutMs is how long the answer may take: at most, and by default, MaxInvokeMs.
	TimeoutMs int `json:"timeout_ms,omitempty" minimum:"0" maximum:"60000" doc:"how long the answer may take; a minute where it is left out"`
}

// Hold is how long the answer may take, in milliseconds.
func (i *Invocation) Hold() int {
	if i.TimeoutMs <= 0 {
		return MaxInvokeMs
	}
	return min(i.TimeoutMs, MaxInvokeMs)
}

// Invoked is the answer to an Invocation.
type Invoked struct {
	Status int                 `json:"status" doc:"of the service, or of the router where it has none to ask"`
	Header map[string][]string `json:"header,omitempty"`
	Body   []byte              `json:"data,omitempty"`
	// Cut: the body is longer than MaxInvokeBytes, and the rest is left out.
	Cut bool `json:"cut,omitempty" doc:"the answer is longer than what is carried"`
}
