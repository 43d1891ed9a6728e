package apiv1

import "testing"

// A cluster of the version before says only in words that an upgrade leaves a worker out.
func TestUnasked(t *testing.T) {
	for want, list := range map[bool][]UpgradeWorker{
		true:  {{LeftOut: true}, {Why: "it was not named"}},
		false: {{}, {Why: "no program is for linux/arm"}},
	} {
		for _, w := range list {
			if got := w.Unasked(); got != want {
				t.Errorf("%+v: %v, want %v", w, got, want)
			}
		}
	}
}
