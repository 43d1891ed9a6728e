package state

// Derivation keeps what a package makes of records in step with them.
type Derivation struct {
	// Loaded makes it after all records were loaded.
	Loaded func(m *Model)
	// Done makes it again where the records that t has changed matter.
	Done func(t *Tx)
}

// derived are the derivations, in the order of the packages' initialization.
var derived []Derivation

// Derive adds a derivation, once, while a package is initialized.
func Derive(d Derivation) { derived = append(derived, d) }
