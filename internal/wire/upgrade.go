package wire

import (
	"encoding/hex"
	"fmt"
	"time"
)

// ProgramsNamespace is where a cluster stores, as objects, the programs for upgrades of its
// workers.
const ProgramsNamespace = "verge-programs"

// MaxProgramBytes of a program.
const MaxProgramBytes = 1 << 30

// Times of an upgrade.
const (
	// DefaultDrain is how long former engines keep open connections by default.
	DefaultDrain = time.Hour
	// RecoverWithin is how long after its soak a worker may still lack what ran there before.
	RecoverWithin = time.Minute
	// TrialWithin is how long a new agent may take to get an answer from its cluster; after
	// that it goes back.
	TrialWithin = 2 * time.Minute
)

// Program is a build of verge for one kind of machine.
type Program struct {
	OS     string `json:"os" maxLength:"20" doc:"operating system, as linux"`
	Arch   string `json:"arch" maxLength:"20" doc:"processor, as amd64"`
	SHA256 string `json:"sha256" maxLength:"64" doc:"checksum, in hexadecimal digits"`
	Size   int64  `json:"size" doc:"bytes"`
	// Signature of SignedProgram, by a key that workers know; empty if nobody signed.
	Signature []byte `json:"signature,omitempty" maxLength:"128" doc:"Ed25519 signature, base64; workers that know keys want it"`
}

// Object is the name of a program in ProgramsNamespace.
func (p *Program) Object() string { return "verge/" + p.SHA256 }

// Check refuses an invalid program.
func (p *Program) Check() error {
	if b, err := hex.DecodeString(p.SHA256); err != nil || len(b) != 32 || p.SHA256 != hex.EncodeToString(b) {
		return fmt.Errorf("%.70q is no SHA-256 in hexadecimal digits", p.SHA256)
	}
	if p.Size <= 0 || p.Size > MaxProgramBytes {
		return fmt.Errorf("it has %d bytes: 1 to %d", p.Size, MaxProgramBytes)
	}
	if len(p.Signature) != 0 && len(p.Signature) != 64 {
		return fmt.Errorf("its signature has %d bytes and not 64", len(p.Signature))
	}
	if p.OS == "" || p.Arch == "" || len(p.OS)+len(p.Arch) > 40 {
		return fmt.Errorf("it does not say for what machines it is")
	}
	return nil
}

// SignedProgram returns what the signature of a program with this checksum covers.
func SignedProgram(sha256 string) []byte { return []byte("verge program v1\n" + sha256 + "\n") }
