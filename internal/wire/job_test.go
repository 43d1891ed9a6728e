package wire

import (
	"encoding/json"
	"testing"
	"time"
)

// Whatever times a cluster reports: what is kept of them can be written, in every zone.
func TestJobTimesThatCanBeStored(t *testing.T) {
	const good = "2026-11-23T14:00:00Z"
	for _, bad := range []string{"9999-12-31T23:59:59-23:59", "0000-01-01T00:00:00+23:59", "1969-12-31T23:59:59Z", "9999-01-01T00:00:00Z"} {
		run := `{"n":1,"scheduled":"` + bad + `","began":"` + bad + `","ended":"` + bad + `"}`
		var r JobReport
		if err := json.Unmarshal([]byte(`{"run":`+run+`,"past":[`+run+`],"next":"`+bad+`","cron":{"after":"`+bad+`",
			"begun":[{"from":"`+bad+`","to":"`+good+`"},{"from":"`+good+`","to":"`+good+`"},{"from":"`+good+`","to":"`+bad+`"}],
			"pending":["`+bad+`","2026-11-23T15:00:00+01:00"]}}`), &r); err != nil {
			t.Fatal(bad, err)
		}
		r.Clamp()
		for _, at := range []time.Time{
			r.Next, r.Cron.After, r.Run.Scheduled, r.Run.Began, r.Run.Ended,
			r.Past[0].Scheduled, r.Past[0].Began, r.Past[0].Ended,
		} {
			if !at.IsZero() || at.Location() != time.UTC {
				t.Errorf("%s is kept as %v", bad, at)
			}
		}
		c := r.Cron
		if len(c.Begun) != 1 || c.Begun[0].To.Format(time.RFC3339) != good || len(c.Pending) != 1 || c.Pending[0].Format(time.RFC3339) != good {
			t.Errorf("%s leaves %+v", bad, c)
		}
	}
}
