package wire

import "time"

// MaxSkew is how far two clocks may differ before it is reported: more than a report takes on a
// bad link, less than what confuses people who read two logs.
const MaxSkew = 5 * time.Second
