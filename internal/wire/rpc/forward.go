package rpc

// A session need not run a program. It may carry connections to an instance, or a file or
// directory from or to it, with the same steps, right and bounds.

// MaxForwardPorts is how many ports one ForwardStart names at most.
const MaxForwardPorts = 16

// ForwardStart asks for a session that carries TCP connections to ports of an instance: input
// and standard output are the two directions of the protocol of package forward.
type ForwardStart struct {
	// Key as in ExecStart.
	Key string `json:"key" minLength:"8" maxLength:"64" doc:"chosen at random; the same key again is the same session"`
	// Ports that may be connected to: their names in the descriptor, or their numbers.
	Ports []string `json:"ports" minItems:"1" maxItems:"16" doc:"names in the descriptor, or numbers"`
}

// CopyStart asks for a session that carries a file or directory, packed by package filecopy:
// from the instance by standard output, or to it by input.
type CopyStart struct {
	// Key as in ExecStart.
	Key string `json:"key" minLength:"8" maxLength:"64" doc:"chosen at random; the same key again is the same session"`
	// Path in the instance, relative to its working directory unless absolute.
	Path string `json:"path" minLength:"1" maxLength:"4096" doc:"in the instance, from its working directory on if it is not absolute"`
	// Into: the instance is copied to.
	Into bool `json:"into,omitempty" doc:"copy to the instance, not from it"`
	// Name of the copy in Path, if that is an existing directory; "" copies the content of a
	// directory without the directory.
	Name string `json:"name,omitempty" maxLength:"255" doc:"what it is to be called where path is a directory that is there"`
}
