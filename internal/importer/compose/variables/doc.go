// Package variables reads files of variables (.env) and replaces references such as ${NAME:-default},
// by the rules of compose-go, which the tests compare it with.
//
// compose-go's packages dotenv and template are not used for these reasons: a file of 255 bytes
// becomes 512 KiB and 40 lines a terabyte; 4,000 references in one text take 3.4 s, four times as
// long as 2,000; and unset variables are written to a log, even with WithoutLogging. Here expansion
// asks a budget first, its time is linear, and unset variables are returned.
package variables
