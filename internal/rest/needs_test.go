package rest

import "testing"

// Parameters that several inputs share are known to what is needed of who asks, too.
func TestSharedParameters(t *testing.T) {
	q := Asked(&VolumeObjectIn{VolumeIn: VolumeIn{Cluster: "c", Worker: "w"}})
	if q.Param("cluster") != "c" || q.Param("worker") != "w" || q.Param("other") != "" {
		t.Errorf("cluster %q, worker %q", q.Param("cluster"), q.Param("worker"))
	}
}
