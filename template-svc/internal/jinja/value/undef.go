package value

import (
	"unsafe"
)

// An undefined value knows why it is undefined and says so when it is used,
// not before.

// Undef says why a value is undefined; its message is raised when the value is
// used. Exc is the Python exception type, "" for UndefinedError.
type Undef struct {
	Hint string
	Name string
	Exc  string
	// Of is the type text of the object that lacks Name, "" if a variable.
	Of string
	// Key is the repr of a key that is no string; it replaces Name.
	Key string
}

// Message is what Jinja2 says when the undefined value is used.
func (u *Undef) Message() string {
	switch {
	case u == nil:
		return "None is undefined"
	case u.Hint != "":
		return u.Hint
	case u.Of == "":
		return ReprString(u.Name) + " is undefined"
	case u.Key != "":
		return u.Of + " has no element " + u.Key
	}
	return ReprString(u.Of) + " has no attribute " + ReprString(u.Name)
}

// Undefined makes an undefined value with its reason, which may be nil.
func Undefined(u *Undef) Value { return Value{k: KindUndefined, p: unsafe.Pointer(u)} }

// Missing is the undefined value of the variable name.
func Missing(name string) Value { return Undefined(&Undef{Name: name}) }

// IsUndefined reports whether v is undefined.
func (v Value) IsUndefined() bool { return v.k == KindUndefined }
