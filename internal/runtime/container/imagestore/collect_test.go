package imagestore

import (
	"fmt"
	"testing"
	"time"
)

func TestWhichImagesGo(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	ago := func(days int) time.Time { return now.AddDate(0, 0, -days) }
	list := []kept{
		{name: "loaded", used: ago(100)},
		{name: "used", used: ago(100), inUse: true, pulled: true},
		{name: "new", used: ago(1), pulled: true},
		{name: "old", used: ago(9), pulled: true},
		{name: "older", used: ago(20), pulled: true},
		{name: "loaded lately", used: ago(2)},
	}
	got := ""
	for _, g := range expired(list, now, 7*24*time.Hour) {
		got += g.Name + ": " + g.Why + "; "
	}
	if want := "old: nothing has needed it for 9 days; older: nothing has needed it for 20 days; "; got != want {
		t.Errorf("%q", got)
	}
	if gone := expired(list, now, 0); len(gone) > 0 {
		t.Errorf("without an age: %v", gone)
	}
	var order []string
	for _, k := range spare(list) {
		order = append(order, k.name)
	}
	if want := "[older old new loaded loaded lately]"; fmt.Sprint(order) != want {
		t.Errorf("%v, want %s", order, want)
	}
}
