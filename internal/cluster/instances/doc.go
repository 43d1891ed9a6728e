// Package instances answers what all packages ask of an instance: is it wanted, why did it
// fail, where must it not go, and what has it counted.
package instances
