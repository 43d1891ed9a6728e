package descriptor

// pos is a place in the source, counted from 1; the zero pos is "unknown".
type pos struct{ line, column int }
