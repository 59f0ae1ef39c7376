package conf

import (
	"errors"
	"fmt"
	"strings"
)

// Fault is one thing wrong with a configuration.
type Fault struct {
	// Path is where, as it is written in the file: "gateway.limits.body". Empty for the whole.
	Path string
	// Message is what is wrong and what would be right, without the path.
	Message string
	// Origin is what set the key over the file: "--set", or the name of an environment variable. Empty for the file, for a
	// default, and for what no single key is to blame for.
	Origin string
}

// Error is the path, the message and the origin on one line.
func (f Fault) Error() string {
	text := f.Message
	if f.Path != "" {
		text = f.Path + ": " + text
	}
	if f.Origin != "" {
		text += " (from " + f.Origin + ")"
	}
	return text
}

// Faults collects everything that is wrong, so that one run reports it all. The zero value is ready; Validate methods
// build one and return Err. It is not safe for concurrent use.
type Faults struct{ list []Fault }

// Add notes a fault at path.
func (f *Faults) Add(path, format string, a ...any) {
	f.list = append(f.list, Fault{Path: path, Message: fmt.Sprintf(format, a...)})
}

// Require notes a fault at path unless ok.
func (f *Faults) Require(ok bool, path, format string, a ...any) {
	if !ok {
		f.Add(path, format, a...)
	}
}

// Under takes over what a section's Validate returned, with path in front of each of its paths. A nil error adds
// nothing.
func (f *Faults) Under(path string, err error) {
	if err == nil {
		return
	}
	var list faultList
	if !errors.As(err, &list) {
		f.list = append(f.list, Fault{Path: path, Message: err.Error()})
		return
	}
	for _, one := range list {
		if one.Path != "" {
			one.Path = path + "." + one.Path
		} else {
			one.Path = path
		}
		f.list = append(f.list, one)
	}
}

// Merge takes over what a Validate of the same level returned, paths unchanged. A nil error adds nothing.
func (f *Faults) Merge(err error) {
	var list faultList
	switch {
	case err == nil:
	case errors.As(err, &list):
		f.list = append(f.list, list...)
	default:
		f.list = append(f.list, Fault{Message: err.Error()})
	}
}

// Err is nil without faults, else an error with one line per fault in the order in which they were added.
func (f *Faults) Err() error {
	if len(f.list) == 0 {
		return nil
	}
	return faultList(f.list)
}

// List returns the faults that an error of Err holds, nil for any other error.
func List(err error) []Fault {
	var list faultList
	if !errors.As(err, &list) {
		return nil
	}
	return list
}

// faultList is the error of Faults.Err.
type faultList []Fault

func (l faultList) Error() string {
	lines := make([]string, len(l))
	for i, f := range l {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}
