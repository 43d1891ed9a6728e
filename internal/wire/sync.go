package wire

import "encoding/json"

// The exchange of revisions is the same between worker and cluster as between cluster and root
// (see internal/bus/exchange). The lower side opens every exchange; the upper side may only
// nudge it.

// Change is the latest value of one key, or its tombstone.
type Change struct {
	Key     string          `json:"k"`
	Value   json.RawMessage `json:"v,omitempty"`
	Deleted bool            `json:"d,omitempty"`
	// Packed is a large value, compressed, in place of Value, for receivers that asked for it.
	Packed []byte `json:"z,omitempty"`
}

// Report goes up every λ and after every change. An idle one has a few dozen bytes: all but V
// and Have are left out.
type Report struct {
	V int `json:"v"`
	// Have is the revision of the desired state that the sender has stored.
	Have Rev `json:"h,omitzero"`
	// Proof is what the receiver gave with Have (see FetchReply.Proof). It is sent with the
	// first report of a connection, if there is one.
	Proof []byte `json:"pf,omitempty"`
	// Changes lead the sender's observed state from From to To; a zero From means that they are
	// all of it (full). Left out when nothing is new.
	From    Rev      `json:"f,omitzero"`
	To      Rev      `json:"t,omitzero"`
	Changes []Change `json:"c,omitempty"`
	// More: the next report continues from To; a full one counts only once its last page
	// arrived.
	More bool `json:"m,omitempty"`
	// Status is volatile: load, aggregate, capacity. Never stored.
	Status json.RawMessage `json:"s,omitempty"`
	// Uses are the services that the sender uses, if the receiver may not know them; nil: as
	// before.
	Uses *Uses `json:"us,omitempty"`
	// Next is when the sender will report again at the latest, in milliseconds:
	// the λ that silence is measured against.
	Next int `json:"x,omitempty"`
	// At is the sender's clock, in seconds of Unix time; 0 if it does not say.
	At int64 `json:"u,omitempty"`
	// Leaving announces that the sender ends now and means to be back soon: its instances go on
	// and should not be replaced in a hurry.
	Leaving bool `json:"l,omitempty"`
}

// MaxUses bounds the entries of a Uses; All stands for more.
const MaxUses = 2048

// Uses are the services whose endpoints a worker needs.
type Uses struct {
	// All of them: the other fields do not count.
	All bool `json:"all,omitempty"`
	// Apps are applications whose services it all needs, Services are single ones
	// ("<application>.<service>"), both sorted.
	Apps     []string `json:"apps,omitempty"`
	Services []string `json:"services,omitempty"`
}

// ReportReply answers a Report.
type ReportReply struct {
	V int `json:"v"`
	// Want is the current revision of the sender's desired state. If it differs
	// from Report.Have the sender fetches.
	Want Rev `json:"w,omitzero"`
	// Proof belongs to Want, for a sender that has Want without a proof.
	Proof []byte `json:"pf,omitempty"`
	// Ack is the revision of the sender's observed state that is now stored here. The sender
	// retains everything newer.
	Ack Rev `json:"a,omitzero"`
	// Was is the stored revision that a full report replaced, if it was of another era: a
	// sender that does not know it is an older copy.
	Was Rev `json:"was,omitzero"`
	// NeedStatus asks for Status with the next report, at once.
	NeedStatus bool `json:"ns,omitempty"`
	// Heeds: the sender gets only the endpoints of the services that it said it uses; also
	// false from those who do not know Uses.
	Heeds bool `json:"hd,omitempty"`
	// Interval is the longest time between reports in milliseconds, from now on; 0 leaves it
	// unchanged.
	Interval int `json:"l,omitempty"`
	// Renew asks the sender to renew its certificate now: the authorities to trust have
	// changed.
	Renew bool `json:"rn,omitempty"`
	// NoGateway: the sender is a gateway with TLS and may not be one, so it gets no
	// certificates; also false from those who do not know grants.
	NoGateway bool `json:"ng,omitempty"`
	// Refused says why the report was not accepted ("" if it was).
	Refused string `json:"e,omitempty"`
}

// Fetch asks for what changed in the desired state since Since.
type Fetch struct {
	V     int `json:"v"`
	Since Rev `json:"s,omitzero"`
	// At is the Rev that the previous page led to, zero for the first page. If what followed is
	// no longer known, the reply has Moved and the sender starts again.
	At Rev `json:"at,omitzero"`
	// After is the last key of the previous page, empty for the first. Only older upper sides,
	// which do not page by revision, read it.
	After string `json:"p,omitempty"`
	// Unpacks: the sender reads packed changes.
	Unpacks bool `json:"z,omitempty"`
}

// FetchReply is one page of the answer.
type FetchReply struct {
	V int `json:"v"`
	// Full, in the first page: Since was unknown here; the changes of all pages together are
	// the whole state, and every other key is dropped.
	Full bool `json:"f,omitempty"`
	// To is the Rev that this page leads to.
	To Rev `json:"t"`
	// Proof is a code for To that only the upper side can make. The lower side keeps it with
	// the revision. An upper side believes a revision ahead of its own store only with this
	// proof. Older versions send none.
	Proof   []byte   `json:"pf,omitempty"`
	Changes []Change `json:"c,omitempty"`
	More    bool     `json:"m,omitempty"`
	Moved   bool     `json:"mv,omitempty"`
}

// Down is what the upper side sends to the lower one unasked. Questions (Ask) are requests on
// another subject.
type Down struct {
	V int `json:"v"`
	// Nudge asks for a report now.
	Nudge bool `json:"n,omitempty"`
	// News is the answer to a Fetch since Since, if it is complete and small. A receiver that
	// has Since, or a revision between it and News.To, need not fetch. Older ones report and
	// fetch.
	Since Rev         `json:"s,omitzero"`
	News  *FetchReply `json:"f,omitempty"`
}
