package wire

import "testing"

func TestMayPass(t *testing.T) {
	for status, want := range map[int]bool{400: false, 403: false, 404: false, 408: true, 409: true, 413: false, 422: false, 425: true, 429: true, 500: true, 503: true, 507: true, 0: true} {
		if got := (&Problem{Status: status}).MayPass(); got != want {
			t.Errorf("%d: %v", status, got)
		}
	}
}
