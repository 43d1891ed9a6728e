package descriptor

import (
	"github.com/verge-edge/verge/api/pattern"
)

var envNameRE = pattern.Lazy(pattern.Env)
