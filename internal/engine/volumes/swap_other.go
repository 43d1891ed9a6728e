//go:build !linux

package volumes

import "errors"

func swap(string, string) error { return errors.New("that needs Linux") }
