// Package words writes values and alternatives for messages.
package words
