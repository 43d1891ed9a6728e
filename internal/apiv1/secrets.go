package apiv1

import (
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// SecretView is a secret without its value, which nobody is shown.
type SecretView struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	Created   time.Time `json:"created"`
	Updated   time.Time `json:"updated"`
	By        string    `json:"by,omitempty" doc:"who set the value"`
	// UsedBy are the services that name it: "shop.web".
	UsedBy []string `json:"used_by,omitempty" doc:"services that name it"`
	// Variable are those of them that have it in a variable, which is as it was when an
	// instance started.
	Variable []string `json:"variable,omitempty" doc:"those of them that have it in a variable, which is as it was when an instance started"`
	// Holders are how many instances that run have a value of it, as their workers say,
	// Current how many of them have this one. Restart are those that get it at their next
	// start.
	Holders int               `json:"holders,omitempty" doc:"how many instances that run have a value of it"`
	Current int               `json:"current,omitempty" doc:"how many of them have the newest one"`
	Restart []wire.InstanceID `json:"restart,omitempty" doc:"those that get the newest one at their next start; 100 at most"`
	// Expires is when a certificate that it is does.
	Expires time.Time `json:"expires,omitzero" doc:"when the certificate in it expires, where it is one"`
	// Problem in words; "" if all is well.
	Problem string `json:"problem,omitempty"`
}
