package core

import (
	"errors"
	"fmt"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// Timing has the times of elections. All servers of a tier have the same.
type Timing struct {
	Tick          time.Duration // between heartbeats
	ElectionTicks int           // without a heartbeat until an election; raft adds up to as many less one
	HintDelay     time.Duration // for each rank, after the connection to the leader has closed
	RetryDelay    time.Duration // while there is no leader
	RetryRank     time.Duration // for each rank on top
	SlowDisk      time.Duration // age of an unsynced append at which a leader hands over
}

// LAN are the times for servers near to each other: elections begin 0.8–1.4 s after the last
// heartbeat.
func LAN() Timing {
	return Timing{
		Tick: 200 * time.Millisecond, ElectionTicks: 4, HintDelay: 50 * time.Millisecond,
		RetryDelay: 150 * time.Millisecond, RetryRank: 60 * time.Millisecond, SlowDisk: 4 * time.Second,
	}
}

// WAN are the times for servers far apart: five times those of a LAN, but for disks, which are
// no slower there.
func WAN() Timing {
	t := LAN()
	t.Tick *= 5
	t.HintDelay *= 5
	t.RetryDelay *= 5
	t.RetryRank *= 5
	return t
}

// Limits bound memory and disk, in bytes unless said otherwise.
type Limits struct {
	Message  uint64 // of entries in one message; an entry may be larger
	Inflight uint64 // sent to a follower and not acknowledged; proposed and not committed
	Keep     int    // of applied entries kept in memory for followers that are a little behind
	Log      int    // by which the log outgrows the last snapshot before another one is taken

	CheckRecords int           // after so many records, at most once in CheckEvery, sums are compared
	CheckEvery   time.Duration //
}

// DefaultLimits are those of a server.
func DefaultLimits() Limits {
	return Limits{
		Message: 1 << 20, Inflight: 64 << 20, Keep: 8 << 20, Log: 8 << 20,
		CheckRecords: 1024, CheckEvery: 10 * time.Minute,
	}
}

// Config of a Node.
type Config struct {
	ID     ID
	Timing Timing
	Limits Limits
}

// State is what a server has found on its disk.
type State struct {
	HardState    *raftpb.HardState // nil: none yet
	Snapshot     *raftpb.Snapshot  // the newest, without its content; nil: none yet
	SnapshotSize int               // of its content, in bytes
	Entries      []*raftpb.Entry   // after the snapshot
}

// Errors of inputs. What they refuse was not written.
var (
	ErrNotLeader     = errors.New("this server does not lead")
	ErrDropped       = errors.New("too much is under way, or the leadership is being transferred")
	ErrFull          = errors.New("the disk is full")
	ErrChangePending = errors.New("another change of the members is under way")
	ErrChangeInvalid = errors.New("the members cannot be changed so")
)

// raftConfig has the settings of the library.
func (c Config) raftConfig(log *memLog) *raft.Config {
	return &raft.Config{
		ID:            uint64(c.ID),
		ElectionTick:  c.Timing.ElectionTicks,
		HeartbeatTick: 1,
		Storage:       log,
		Applied:       log.prev.index,

		AsyncStorageWrites:        true,
		PreVote:                   true,
		CheckQuorum:               true,
		StepDownOnRemoval:         true,
		DisableProposalForwarding: true,
		ReadOnlyOption:            raft.ReadOnlySafe,

		MaxSizePerMsg:             c.Limits.Message,
		MaxCommittedSizePerReady:  16 * c.Limits.Message,
		MaxUncommittedEntriesSize: c.Limits.Inflight,
		MaxInflightMsgs:           256,
		MaxInflightBytes:          max(c.Limits.Inflight, c.Limits.Message),
		Logger:                    silent{},
	}
}

// silent is a raft.Logger that says nothing. What matters is in Ready, and a panic has to
// unwind as one: Fatal of the library would end the process.
type silent struct{}

func (silent) Debug(...any)            {}
func (silent) Debugf(string, ...any)   {}
func (silent) Info(...any)             {}
func (silent) Infof(string, ...any)    {}
func (silent) Warning(...any)          {}
func (silent) Warningf(string, ...any) {}
func (silent) Error(...any)            {}
func (silent) Errorf(string, ...any)   {}

func (silent) Fatal(v ...any)                 { panic(fmt.Sprint(v...)) }
func (silent) Fatalf(format string, v ...any) { panic(fmt.Sprintf(format, v...)) }
func (silent) Panic(v ...any)                 { panic(fmt.Sprint(v...)) }
func (silent) Panicf(format string, v ...any) { panic(fmt.Sprintf(format, v...)) }

var _ raft.Logger = silent{}
