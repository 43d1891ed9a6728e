package descriptor

import (
	"fmt"

	"github.com/verge-edge/verge/api"
)

// rollout checks what the fields of one cannot say alone.
func (v *validator) rollout(path string, s *api.Service) {
	r := s.Rollout
	zero := func(a *api.Amount) bool { return a != nil && *a == 0 }
	if zero(r.MaxSurge) && zero(r.MaxUnavailable) {
		v.complain(path+".max_unavailable", "is 0, and so is max_surge: nothing could ever be updated",
			"write 1 for one of them")
	}
	if s.Pins() && r.MaxSurge != nil && *r.MaxSurge != 0 {
		v.complain(path+".max_surge", "is above 0, but each instance has a named volume, which is kept for it alone",
			"write 0, and say how many may be missing in max_unavailable")
	}
	if p := r.ProgressDeadline; p != nil && *p <= s.MinReady() {
		v.complain(path+".progress_deadline", p.String()+" is not more than the "+s.MinReady().String()+" of min_ready",
			"raise it, or lower min_ready")
	}
	v.canary(path, s)
}

// canary checks the steps of a rollout.
func (v *validator) canary(path string, s *api.Service) {
	r, last := s.Rollout, api.Percent(0)
	for i, st := range r.Canary {
		at := fmt.Sprintf("%s.canary[%d].share", path, i)
		switch {
		case st.Share == 0:
			v.complain(at, "is 0%: nothing would be tried", "write a share above 0%, such as 5%")
		case st.Share <= last:
			v.complain(at, st.Share.String()+" is not more than the "+last.String()+" of the step before",
				"write the steps in ascending order")
		}
		last = st.Share
	}
	switch a := r.MaxSurge; {
	case len(r.Canary) == 0:
	case s.Pins():
		v.complain(path+".canary",
			"needs instances beside those promised, and each of these has a named volume, which is kept for it alone",
			"leave it out, and use max_unavailable")
	case len(s.Ports) == 0:
		v.complain(path+".canary", "shares requests, and the service has no ports", "leave it out, or give it ports")
	case a != nil && *a == 0:
		v.complain(path+".max_surge", "is 0, and a canary runs beside the others", "leave it out")
	case a != nil && *a < 0 && api.Percent(-*a)*100 < last:
		v.complain(path+".max_surge",
			a.String()+" is less than the "+last.String()+" of the last step of canary, whose instances run beside the others",
			"write at least "+last.String()+", or leave it out")
	}
}
