// Package drive keeps something busy in a closed loop and measures what it does: so
// many clients, each of which asks again as soon as it is answered.
//
// It promises that it begins nothing after its time, that it ends at once where more
// than half of what it asks fails, and that its memory does not grow with the number of
// requests. What was under way when the measuring ended does not count, as what was
// under way when it began does: both are the same number where nothing changes.
package drive
