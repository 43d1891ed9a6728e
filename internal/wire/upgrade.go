package wire

import (
	"encoding/hex"
	"fmt"
	"time"

	"github.com/verge-edge/verge/api"
)

// ProgramsNamespace is where a cluster keeps the programs that its workers are to be
// upgraded to, as objects.
const ProgramsNamespace = "verge-programs"

// Bounds of an upgrade.
const (
	MaxProgramBytes = 1 << 30
	MaxPrograms     = 8 // of one upgrade: each is for another kind of machine
	MaxWave         = 1000
	maxUpgradeNames = 10_000
	maxReason       = 500
)

// Defaults and bounds of the times of an upgrade.
const (
	DefaultSoak     = 10 * time.Second
	DefaultPatience = 10 * time.Minute
	DefaultDrain    = time.Hour
	MaxSoak         = 24 * time.Hour
	// RecoverWithin is how long after it was watched a worker may still lack what ran
	// there before.
	RecoverWithin = time.Minute
	// TrialWithin is how long a new agent may take until its cluster has answered it;
	// after that it goes back.
	TrialWithin = 2 * time.Minute
)

// Program is a build of verge for one kind of machine.
type Program struct {
	OS     string `json:"os" maxLength:"20" doc:"operating system, as linux"`
	Arch   string `json:"arch" maxLength:"20" doc:"processor, as amd64"`
	SHA256 string `json:"sha256" maxLength:"64" doc:"checksum, in hexadecimal digits"`
	Size   int64  `json:"size" doc:"bytes"`
	// Signature of SignedProgram, by a key that workers know; empty where nobody signed.
	Signature []byte `json:"signature,omitempty" maxLength:"128" doc:"Ed25519 signature, base64; workers that know keys want it"`
}

// Object is the name of a program in ProgramsNamespace.
func (p *Program) Object() string { return "verge/" + p.SHA256 }

// Check refuses what cannot be a program.
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

// SignedProgram is what is signed of a program with this checksum.
func SignedProgram(sha256 string) []byte { return []byte("verge program v1\n" + sha256 + "\n") }

// UpgradeRequest says which program the workers of a cluster should be.
type UpgradeRequest struct {
	Programs []Program    `json:"programs" maxItems:"8" doc:"one for each kind of machine; its object is put before"`
	Workers  []string     `json:"workers,omitempty" maxItems:"10000" doc:"only these; all where it is left out"`
	Wave     int          `json:"wave,omitempty" doc:"how many at a time; 0: one"`
	Soak     api.Duration `json:"soak,omitempty" doc:"how long each is watched before the next wave; 0: 10s"`
	Patience api.Duration `json:"patience,omitempty" doc:"how long one may take; 0: 10m"`
	Drain    api.Duration `json:"drain,omitempty" doc:"how long former engines keep open connections; 0: 1h"`
	Reason   string       `json:"reason,omitempty" maxLength:"500" doc:"why, for those who come across it"`
}

// Fill sets what was left out, and refuses what cannot be.
func (q *UpgradeRequest) Fill() error {
	fill := func(d *api.Duration, def time.Duration) {
		if *d == 0 {
			*d = api.Duration(def)
		}
	}
	fill(&q.Soak, DefaultSoak)
	fill(&q.Patience, DefaultPatience)
	fill(&q.Drain, DefaultDrain)
	q.Wave = max(q.Wave, 1)
	seen := map[string]bool{}
	for i := range q.Programs {
		p := &q.Programs[i]
		kind := p.OS + "/" + p.Arch
		if err := p.Check(); err != nil {
			return fmt.Errorf("program %d: %w", i+1, err)
		}
		if seen[kind] {
			return fmt.Errorf("two programs are for %s", kind)
		}
		seen[kind] = true
	}
	switch {
	case len(q.Programs) == 0 || len(q.Programs) > MaxPrograms:
		return fmt.Errorf("%d programs: 1 to %d", len(q.Programs), MaxPrograms)
	case q.Wave > MaxWave:
		return fmt.Errorf("%d workers at a time: 1 to %d", q.Wave, MaxWave)
	case len(q.Workers) > maxUpgradeNames:
		return fmt.Errorf("%d workers are named: at most %d", len(q.Workers), maxUpgradeNames)
	case q.Soak < 0 || q.Soak.Std() > MaxSoak || q.Drain < 0 || q.Drain.Std() > MaxSoak:
		return fmt.Errorf("soak %s and drain %s: 0s to %s", q.Soak, q.Drain, MaxSoak)
	case q.Patience.Std() < 10*time.Second || q.Patience.Std() > MaxSoak:
		return fmt.Errorf("patience %s: 10s to %s", q.Patience, MaxSoak)
	case len(q.Reason) > maxReason:
		return fmt.Errorf("the reason has %d bytes: at most %d", len(q.Reason), maxReason)
	}
	return nil
}

// For is the program for a kind of machine, nil if there is none.
func (q *UpgradeRequest) For(os, arch string) *Program {
	for i := range q.Programs {
		if p := &q.Programs[i]; p.OS == os && p.Arch == arch {
			return p
		}
	}
	return nil
}

// States of an upgrade.
const (
	UpgradeNone    = "none" // there was none yet
	UpgradeRolling = "rolling"
	UpgradePaused  = "paused"
	UpgradeHalted  = "halted" // something failed: nothing more begins
	UpgradeDone    = "done"
)

// Actions on an upgrade.
const (
	UpgradePause  = "pause"
	UpgradeResume = "resume"
	UpgradeUndo   = "undo"
)

// UpgradeAction is what is to become of an upgrade.
type UpgradeAction struct {
	Reason string `json:"reason,omitempty" maxLength:"500" doc:"why, for those who come across it"`
}

// UpgradeView is how far an upgrade is.
type UpgradeView struct {
	Cluster string    `json:"cluster"`
	ID      string    `json:"id,omitempty"`
	State   string    `json:"state" enum:"none,rolling,paused,halted,done"`
	Undo    bool      `json:"undo,omitempty" doc:"workers go back to what they were"`
	Why     string    `json:"why,omitempty" doc:"what it waits for, or why it does not go on"`
	By      string    `json:"by,omitempty"`
	At      time.Time `json:"at,omitzero"`
	Reason  string    `json:"reason,omitempty"`
	Wave    int       `json:"wave,omitempty" doc:"how many workers at a time"`
	// Programs that they should be.
	Programs []Program       `json:"programs,omitempty"`
	Workers  []UpgradeWorker `json:"workers"`
	// Spare is how many programs the cluster keeps that this upgrade does not need.
	Spare      int       `json:"spare,omitempty" doc:"programs that the cluster keeps and this upgrade does not need"`
	SpareBytes int64     `json:"spare_bytes,omitempty" doc:"bytes of these"`
	SpareUntil time.Time `json:"spare_until,omitzero" doc:"when the last of these is removed"`
}

// UpgradeWorker is how far a worker is in an upgrade.
type UpgradeWorker struct {
	Name    string    `json:"name"`
	Phase   string    `json:"phase" enum:"waiting,upgrading,watched,done,skipped,failed"`
	Since   time.Time `json:"since,omitzero"`
	Version string    `json:"version,omitempty" doc:"of its agent, as it says"`
	Was     string    `json:"was,omitempty" doc:"the version when it began"`
	Why     string    `json:"why,omitempty"`
}

// AskUpgrade lets a worker be upgraded, or go back. It may be asked as often as one
// likes: the key names one try, of which the answer says how far it is.
const AskUpgrade = "upgrade"

// UpgradeAsk is what AskUpgrade is about.
type UpgradeAsk struct {
	Key string `json:"k"`
	// Program that it is to be; nil where Undo is set.
	Program *Program `json:"p,omitempty"`
	// Undo is the key of a try of which all is to be as before; "" for none.
	Undo string `json:"u,omitempty"`
	// Drain bounds how long open connections are kept, in nanoseconds.
	Drain int64 `json:"d,omitempty"`
}

// States of a try on a worker.
const (
	TryGoesOn  = "goes-on"
	TryDone    = "done"
	TryFailed  = "failed"  // it goes on as before
	TryRefused = "refused" // it is not let
)

// UpgradeTry is how far a worker is with a try.
type UpgradeTry struct {
	V     int    `json:"v"`
	Key   string `json:"k"`
	State string `json:"s"`
	Why   string `json:"w,omitempty"`
	// Again: a try that failed may work another time; the link was away, for one.
	Again bool `json:"g,omitempty"`
	// Agent and Engine are the versions of its two processes.
	Agent  string `json:"a,omitempty"`
	Engine string `json:"e,omitempty"`
}
