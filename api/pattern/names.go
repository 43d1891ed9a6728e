package pattern

// Patterns of texts and keys.
const (
	Label     = `^[a-z]([-a-z0-9]*[a-z0-9])?$`                     // a name (RFC 1035)
	Site      = `^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`                  // a cluster or an area (RFC 1123)
	Env       = `^[!-<>-~]+$`                                      // a variable: what containers may have (log.level), without spaces
	Reference = `^[A-Za-z_][A-Za-z0-9_]*$`                         // one that ${NAME} refers to
	Host      = `^(\*\.)?[A-Za-z0-9]([-.A-Za-z0-9]*[A-Za-z0-9])?$` // roughly; validHost is exact
	Path      = "^/[^\\x00-\\x20\\x7f]*$"
	File      = "^[^\\x00-\\x1f\\x7f]+$" // roughly; pathProblem is exact
	Image     = `^[a-zA-Z0-9][-a-zA-Z0-9._:/\[\]]*(@(sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128}))?$`
	User      = `^[a-zA-Z0-9_][-a-zA-Z0-9_.]*(:[a-zA-Z0-9_][-a-zA-Z0-9_.]*)?$`
	Module    = `^/?[A-Za-z0-9_][-A-Za-z0-9._]*(/[A-Za-z0-9_][-A-Za-z0-9._]*)*$`
	Address   = "^([0-9]{1,3}\\.){3}[0-9]{1,3}$" // roughly; serviceIP is exact
	HostDir   = "^/[^\\x00-\\x1f\\x7f]*$"
	// IngressPath is roughly what is exact in validator.paths.
	IngressPath = `^/[-A-Za-z0-9._~/]*$`
	LabelKey    = `^[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?$` // of a label of a worker
	// Number is a number as JSON has it.
	Number     = `^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`
	LabelValue = "^[^\\x00-\\x1f\\x7f]*$" // of its value; LabelProblem is exact
)
