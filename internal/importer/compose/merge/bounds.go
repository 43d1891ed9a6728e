package merge

// MaxValues bounds the values of all files together, once aliases are followed.
const MaxValues = 20_000
