package wire_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// TestOldNames: fields that have another name in Go than in the first version keep that of JSON, for
// records and peers of the version before.
func TestOldNames(t *testing.T) {
	const reported = `"kept":true,"unkept":"too far"`
	var r wire.Reported
	if err := json.Unmarshal([]byte("{"+reported+"}"), &r); err != nil || !r.Retained || r.SLAViolation != "too far" {
		t.Errorf("%+v, %v", r, err)
	}
	if out, err := json.Marshal(r); err != nil || !strings.Contains(string(out), reported) {
		t.Errorf("%s, %v", out, err)
	}
	var p rpc.ProfileReport
	if err := json.Unmarshal([]byte(`{"kept":true}`), &p); err != nil || !p.Stored {
		t.Errorf("%+v, %v", p, err)
	}
	if out, err := json.Marshal(p); err != nil || !strings.Contains(string(out), `"kept":true`) {
		t.Errorf("%s, %v", out, err)
	}
	const counted = `"tally":{"restarts":2,"changes":3},"since_away":{"at":"2026-01-02T03:04:05Z","restarts":1,"changes":0}`
	var v apiv1.StatusView
	if err := json.Unmarshal([]byte("{"+counted+"}"), &v); err != nil || v.Tally.Restarts != 2 || v.SinceAway.Restarts != 1 {
		t.Errorf("%+v, %v", v, err)
	}
	if out, err := json.Marshal(v); err != nil || !strings.Contains(string(out), counted) {
		t.Errorf("%s, %v", out, err)
	}
	if wire.ReportedCounters != "tally/" {
		t.Errorf("%s: clusters of the version before report below tally/", wire.ReportedCounters)
	}
}
