package bus

import "fmt"

// CheckKey says whether key is one that a Store accepts.
func CheckKey(key string) error {
	if key == "" || len(key) > MaxKeyBytes {
		return fmt.Errorf("invalid key %.60q: must have 1 to %d bytes", key, MaxKeyBytes)
	}
	if key[0] == '.' || key[len(key)-1] == '.' {
		return fmt.Errorf("invalid key %q: starts or ends with a dot", key)
	}
	for i := 0; i < len(key); i++ {
		c := key[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9',
			c == '-', c == '_', c == '/', c == '=':
		case c == '.' && key[i-1] != '.':
		default:
			return fmt.Errorf("invalid key %q: byte %d is not allowed", key, i)
		}
	}
	return nil
}

// CheckOps says whether ops may be one Commit.
func CheckOps(ops []Op) error {
	if len(ops) > MaxCommitOps {
		return fmt.Errorf("commit of %d operations: at most %d are allowed", len(ops), MaxCommitOps)
	}
	total := 0
	seen := make(map[string]struct{}, len(ops))
	for _, op := range ops {
		if err := CheckKey(op.Key); err != nil {
			return err
		}
		if len(op.Value) > MaxValueBytes {
			return fmt.Errorf("key %q: value of %d bytes: at most %d are allowed", op.Key, len(op.Value), MaxValueBytes)
		}
		if _, dup := seen[op.Key]; dup {
			return fmt.Errorf("key %q occurs twice in one commit", op.Key)
		}
		seen[op.Key] = struct{}{}
		total += len(op.Key) + len(op.Value)
	}
	if total > MaxCommitBytes {
		return fmt.Errorf("commit of %d bytes: at most %d are allowed", total, MaxCommitBytes)
	}
	return nil
}
