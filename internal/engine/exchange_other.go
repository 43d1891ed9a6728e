//go:build !linux

package engine

import "errors"

func exchangeDirs(string, string) error { return errors.New("that needs Linux") }
