// Package redact takes secrets out of texts that people give to others, such as the files of a
// support bundle.
//
// It knows secrets that the caller names, and what looks like one: private keys, tokens of Verge,
// bearer and basic credentials, passwords in URLs, and values with names such as password or
// api_key, in plain text, YAML and JSON. What looks like none of these stays: Text is a help, and
// no proof that a text has no secret.
package redact
