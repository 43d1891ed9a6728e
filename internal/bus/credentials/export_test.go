package credentials

// Seed is the private half, for raw clients.
func (k Key) Seed() ([]byte, error) { return k.pair.Seed() }
