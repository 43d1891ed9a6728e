package backup

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	// age: the one well reviewed format for files that are encrypted for a
	// passphrase or a public key, readable without Verge.
	"filippo.io/age"

	"github.com/verge-edge/verge/internal/wire"
)

// The beginnings of files, which identify their kind.
const (
	sealedMagic = "age-encryption.org/"
	gzipMagic   = "\x1f\x8b"
)

// scryptWork is the cost of a passphrase, as a power of two: 64 MiB and a quarter
// of a second; what age takes by itself is more memory than a small board has.
const scryptWork = 16

// Seal says for whom a backup is encrypted: for a passphrase or for recipients
// ("age1…"). The zero value encrypts nothing.
type Seal struct {
	Passphrase string
	Recipients []string
	// Work is the cost of the passphrase as a power of two, 1 to 22; 0 takes 16,
	// which is a quarter of a second.
	Work int
}

// Writer encrypts what is written to it into w; it must be closed.
func (s Seal) Writer(w io.Writer) (io.WriteCloser, error) {
	var to []age.Recipient
	for _, text := range s.Recipients {
		list, err := age.ParseRecipients(strings.NewReader(text))
		if err != nil {
			return nil, wire.Problemf(0, "bad-recipient", "it is a public key that age-keygen printed, age1…",
				"this is not a recipient", "%.80q: %v", text, err)
		}
		to = append(to, list...)
	}
	if s.Passphrase != "" {
		r, err := age.NewScryptRecipient(s.Passphrase)
		if err != nil {
			return nil, fmt.Errorf("encrypt the backup: %w", err)
		}
		r.SetWorkFactor(cmp.Or(s.Work, scryptWork))
		to = append(to, r)
	}
	if len(to) == 0 {
		return plain{w}, nil
	}
	out, err := age.Encrypt(w, to...)
	if err != nil {
		return nil, fmt.Errorf("encrypt the backup: %w", err)
	}
	return out, nil
}

type plain struct{ io.Writer }

// Close implements io.Closer.
func (plain) Close() error { return nil }

// Keys open a sealed backup.
type Keys struct {
	Passphrase string
	// Identities are secret keys of age, one on a line.
	Identities string
}

// Unseal returns what was written to the Writer of a Seal. sealed says whether it
// was encrypted.
func Unseal(r io.Reader, k Keys) (out io.Reader, sealed bool, err error) {
	b := bufio.NewReader(r)
	head, err := b.Peek(len(sealedMagic))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, fmt.Errorf("read the backup: %w", err)
	}
	switch {
	case bytes.HasPrefix(head, []byte(gzipMagic)):
		return b, false, nil
	case string(head) != sealedMagic:
		return nil, false, wire.Problemf(0, "not-a-backup", "give a file that verge backup has written",
			"this is not a backup of Verge", "it begins with %q", head)
	}
	var ids []age.Identity
	if k.Passphrase != "" {
		id, err := age.NewScryptIdentity(k.Passphrase)
		if err != nil {
			return nil, true, fmt.Errorf("decrypt the backup: %w", err)
		}
		id.SetMaxWorkFactor(22)
		ids = append(ids, id)
	}
	if k.Identities != "" {
		list, err := age.ParseIdentities(strings.NewReader(k.Identities))
		if err != nil {
			return nil, true, wire.Problemf(0, "bad-identity", "give the file that age-keygen wrote",
				"the identities cannot be read", "%v", err)
		}
		ids = append(ids, list...)
	}
	if len(ids) == 0 {
		return nil, true, wire.Problemf(0, "backup-sealed", "give --passphrase-file FILE or --identity-file FILE",
			"the backup is encrypted", "neither a passphrase nor an identity was given")
	}
	out, err = age.Decrypt(b, ids...)
	var none *age.NoIdentityMatchError
	switch {
	case errors.As(err, &none), errors.Is(err, age.ErrIncorrectIdentity):
		return nil, true, wire.Problemf(0, "wrong-passphrase", "give the one that it was made with",
			"the backup cannot be decrypted", "the passphrase or identity is not the one that it was encrypted for")
	case err != nil:
		return nil, true, damaged(err)
	}
	return out, true, nil
}
