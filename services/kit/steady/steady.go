// Package steady says when files that others write may be read.
//
// A file that is written in place is half itself for a while. Its reader therefore looks at a stamp (sizes and times of
// all files that belong together) in intervals and reads when two looks in a row see the same new stamp; what was read
// while the stamp changed is thrown away. A writer that pauses for longer than an interval within a file is read
// halfway, and again once it has ended; one that renames finished files is never.
package steady

// Files is what a reader knows of one set of files. The zero value has looked at nothing. It is not safe for concurrent
// use.
type Files struct {
	looked bool
	// taken is the stamp of what was read last, seen that of the last look.
	taken, seen string
}

// Look takes the stamp of now and reports whether to read: at the first look, and when this look and the one before saw
// the same stamp, which is not that of what was read last. Whoever reads calls Took.
func (f *Files) Look(stamp string) bool {
	read := !f.looked || (stamp == f.seen && stamp != f.taken)
	f.looked, f.seen = true, stamp
	return read
}

// Took takes the stamp after the files have been read, well or not, and reports whether the outcome counts. If not, the
// files changed meanwhile: it is to be thrown away, and the next looks decide.
func (f *Files) Took(stamp string) bool {
	if stamp != f.seen {
		f.seen = stamp
		return false
	}
	f.taken = stamp
	return true
}
