package pki

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
)

// proofPrefix keeps what is signed to prove a key apart from anything else that
// the key signs: a certificate begins with another byte.
const proofPrefix = "verge proof of possession 1\n"

// Prove signs text with the node key in dir.
func Prove(dir, text string) ([]byte, error) { return prove(dir, nodeKeyFile, text) }

// ProveCluster signs text with the key of the cluster's authority in dir.
func ProveCluster(dir, text string) ([]byte, error) { return prove(dir, clusterKeyFile, text) }

func prove(dir, file, text string) ([]byte, error) {
	key, err := readKey(filepath.Join(dir, file))
	if err != nil {
		return nil, fmt.Errorf("prove the own key: %w", err)
	}
	sum := sha256.Sum256([]byte(proofPrefix + text))
	return ecdsa.SignASN1(rand.Reader, key, sum[:])
}

// CheckProof says whether signature over text was made with the key of which
// public (PKIX DER) is the public part.
func CheckProof(public []byte, text string, signature []byte) error {
	key, err := parsePublic(public)
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(proofPrefix + text))
	if !ecdsa.VerifyASN1(key, sum[:], signature) {
		return errors.New("the signature is not by that key")
	}
	return nil
}
