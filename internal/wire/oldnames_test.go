package wire

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestOldNames: fields that have another name in Go than in the first version keep that of JSON, for
// records and peers of the version before.
func TestOldNames(t *testing.T) {
	const reported = `"kept":true,"unkept":"too far"`
	var r Reported
	if err := json.Unmarshal([]byte("{"+reported+"}"), &r); err != nil || !r.Retained || r.SLAViolation != "too far" {
		t.Errorf("%+v, %v", r, err)
	}
	if out, err := json.Marshal(r); err != nil || !strings.Contains(string(out), reported) {
		t.Errorf("%s, %v", out, err)
	}
	var p ProfileReport
	if err := json.Unmarshal([]byte(`{"kept":true}`), &p); err != nil || !p.Stored {
		t.Errorf("%+v, %v", p, err)
	}
	if out, err := json.Marshal(p); err != nil || !strings.Contains(string(out), `"kept":true`) {
		t.Errorf("%s, %v", out, err)
	}
}
