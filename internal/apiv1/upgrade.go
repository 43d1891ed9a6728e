package apiv1

import (
	"fmt"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// Bounds of an upgrade.
const (
	MaxPrograms     = 8 // of one upgrade: each is for another kind of machine
	MaxWave         = 1000
	maxUpgradeNames = 10_000
	maxReason       = 500
)

// Defaults and bounds of the times that people set for an upgrade.
const (
	DefaultSoak          = 10 * time.Second
	DefaultWorkerTimeout = 10 * time.Minute
	MaxSoak              = 24 * time.Hour
)

// UpgradeRequest says which program the workers of a cluster should be.
type UpgradeRequest struct {
	Programs []wire.Program `json:"programs" maxItems:"8" doc:"one for each kind of machine; its object is put before"`
	Workers  []string       `json:"workers,omitempty" maxItems:"10000" doc:"only these; all where it is left out"`
	Wave     int            `json:"wave,omitempty" doc:"how many at a time; 0: one"`
	Soak     api.Duration   `json:"soak,omitempty" doc:"how long each is watched before the next wave; 0: 10s"`
	// WorkerTimeout has the name in JSON that the version before gave it: stored upgrades and its
	// clusters have that.
	WorkerTimeout api.Duration `json:"patience,omitempty" doc:"how long one worker may take; 0: 10m"`
	Drain         api.Duration `json:"drain,omitempty" doc:"how long former engines keep open connections; 0: 1h"`
	Reason        string       `json:"reason,omitempty" maxLength:"500" doc:"why, for those who come across it"`
}

// Fill sets what was left out, and refuses what cannot be.
func (q *UpgradeRequest) Fill() error {
	fill := func(d *api.Duration, def time.Duration) {
		if *d == 0 {
			*d = api.Duration(def)
		}
	}
	fill(&q.Soak, DefaultSoak)
	fill(&q.WorkerTimeout, DefaultWorkerTimeout)
	fill(&q.Drain, wire.DefaultDrain)
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
	case q.WorkerTimeout.Std() < 10*time.Second || q.WorkerTimeout.Std() > MaxSoak:
		return fmt.Errorf("worker timeout %s: 10s to %s", q.WorkerTimeout, MaxSoak)
	case len(q.Reason) > maxReason:
		return fmt.Errorf("the reason has %d bytes: at most %d", len(q.Reason), maxReason)
	}
	return nil
}

// For is the program for a kind of machine, nil if there is none.
func (q *UpgradeRequest) For(os, arch string) *wire.Program {
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
	Programs []wire.Program  `json:"programs,omitempty"`
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
	LeftOut bool      `json:"left_out,omitempty" doc:"it is skipped because the upgrade names other workers"`
}

// whyLeftOut is how clusters of the version before say LeftOut.
const whyLeftOut = "it was not named"

// Unasked says whether the upgrade leaves the worker out on purpose.
func (w *UpgradeWorker) Unasked() bool { return w.LeftOut || w.Why == whyLeftOut }
