// Package pyerr holds the errors a template can end with: each carries the
// name of the Python exception that Jinja2 3.1.6 on CPython raises in its
// place, because a worker answers with that exception's text.
package pyerr

import (
	"errors"
	"fmt"
)

// The Python and Jinja2 exception types the engine raises.
const (
	Template        = "TemplateError" // raise_exception alone
	Syntax          = "TemplateSyntaxError"
	Assertion       = "TemplateAssertionError"
	TemplateRuntime = "TemplateRuntimeError"
	Undefined       = "UndefinedError"
	Security        = "SecurityError"
	FilterArgument  = "FilterArgumentError"
	Type            = "TypeError"
	Value           = "ValueError"
	Key             = "KeyError"
	Index           = "IndexError"
	Attribute       = "AttributeError"
	Overflow        = "OverflowError"
	ZeroDivision    = "ZeroDivisionError"
	Lookup          = "LookupError"
	StopIteration   = "StopIteration"
	NotFound        = "TemplatesNotFound"
	UnicodeEncode   = "UnicodeEncodeError"
	UnicodeDecode   = "UnicodeDecodeError"
)

// Error is an exception of the template language. Type and Message equal what
// Python reports; Line and Col (1-based, code points, 0 = unknown) name the
// place in the source and are no part of Message.
type Error struct {
	Type    string
	Message string
	Line    int
	Col     int
}

// Error gives "Type: message (line l, column c)".
func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Type + ": " + e.Message
	}
	return fmt.Sprintf("%s: %s (line %d, column %d)", e.Type, e.Message, e.Line, e.Col)
}

// New makes an error of a Python type without a place.
func New(typ, message string) *Error { return &Error{Type: typ, Message: message} }

// Newf is New with a message made by fmt.Sprintf.
func Newf(typ, format string, a ...any) *Error {
	return &Error{Type: typ, Message: fmt.Sprintf(format, a...)}
}

// At sets the place of an *Error that has none yet and returns err; the
// innermost place wins.
func At(err error, line, col int) error {
	var e *Error
	if errors.As(err, &e) && e.Line == 0 {
		e.Line, e.Col = line, col
	}
	return err
}

// Is reports whether err is an *Error of the given Python type.
func Is(err error, typ string) bool {
	var e *Error
	return errors.As(err, &e) && e.Type == typ
}
