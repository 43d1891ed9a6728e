// Package dotenv reads files of variables (.env) by the rules of compose-go, which the tests compare
// it with.
//
// compose-go's package dotenv is not used: with it a file of 255 bytes becomes 512 KiB and 40 lines a
// terabyte. Here expansion asks a budget first.
package dotenv
