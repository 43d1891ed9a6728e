package api

import (
	"encoding/json"
	"testing"
)

func TestReplicasJSON(t *testing.T) {
	for want, r := range map[string]Replicas{
		`{"r":0}`:                 {},
		`{"r":3}`:                 {3, 3},
		`{"r":{"min":1,"max":3}}`: {1, 3},
	} {
		type holder struct {
			R Replicas `json:"r,omitzero"`
		}
		got, err := json.Marshal(holder{r})
		if err != nil || string(got) != want {
			t.Errorf("%v: %s, %v; want %s", r, got, err, want)
		}
		var again holder
		if err := json.Unmarshal(got, &again); err != nil || again.R != r {
			t.Errorf("%s: %v, %v", got, again, err)
		}
	}
	var r Replicas
	for _, bad := range []string{`"3"`, `1.5`, `{"min":"1"}`, `[1]`} {
		if err := json.Unmarshal([]byte(bad), &r); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
	// Messages between tiers may have fields of a newer version.
	if err := json.Unmarshal([]byte(`{"min":2,"max":2,"newer":1}`), &r); err != nil || r != (Replicas{2, 2}) {
		t.Errorf("%v, %v", r, err)
	}
}
