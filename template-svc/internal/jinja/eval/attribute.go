package eval

import (
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Which attributes a Python object has decides between an item, a method
// and a SecurityError, so the names are listed here by type.

// isDictAttr reports whether a name is an attribute of every dict, so that
// d.name is not the item.
func isDictAttr(name string) bool {
	return isDictMutator(name) || dictMethods(name) != nil
}

// isDictMutator reports the methods of dict that the immutable sandbox
// hides.
func isDictMutator(name string) bool {
	switch name {
	case "clear", "pop", "popitem", "setdefault", "update":
		return true
	}
	return false
}

// isListMutator reports the methods of list that the immutable sandbox
// hides.
func isListMutator(name string) bool {
	switch name {
	case "append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort":
		return true
	}
	return false
}

// The double-underscore attributes of every object and of single types.
const (
	objectDunders = " class delattr dir doc eq format ge getattribute getstate gt hash init init_subclass le lt ne new" +
		" reduce reduce_ex repr setattr sizeof str subclasshook "
	strDunders    = " add contains getitem getnewargs iter len mod mul rmod rmul "
	markupDunders = strDunders + " html html_format module radd slots "
	bytesDunders  = strDunders + " bytes "
	listDunders   = " add class_getitem contains delitem getitem iadd imul iter len mul reversed rmul setitem "
	tupleDunders  = " add class_getitem contains getitem getnewargs iter len mul rmul "
	dictDunders   = " class_getitem contains delitem getitem ior iter len or reversed ror setitem "
	floatDunders  = " abs add bool divmod ceil float floor floordiv getnewargs int mod mul neg pos pow radd rdivmod rfloordiv" +
		" rmod rmul round rpow rsub rtruediv sub truediv trunc "
	intDunders       = floatDunders + " and index invert lshift or rand rlshift ror rrshift rshift rxor xor "
	undefinedDunders = " add aiter bool call complex div float floordiv getattr getitem int iter len mod module mul neg pos" +
		" pow radd rdiv rfloordiv rmod rmul rpow rsub rtruediv slots sub truediv "
	callableDunders = " annotations call closure code defaults dict get globals kwdefaults module name qualname self wrapped "
	objectExtra     = " call dict iter len module name next qualname weakref "
)

// isDunder reports whether v has the attribute name, which starts with "__".
func isDunder(v value.Value, name string) bool {
	if len(name) < 5 || !strings.HasSuffix(name, "__") {
		return false
	}
	word := " " + name[2:len(name)-2] + " "
	if _, ok := v.AsObject().(*namespace); ok {
		return word == " class "
	}
	if strings.Contains(objectDunders, word) {
		return true
	}
	set := objectExtra
	switch v.Kind() {
	case value.KindUndefined:
		set = undefinedDunders
	case value.KindNone:
		set = " bool "
	case value.KindBytes:
		set = bytesDunders
	case value.KindStr:
		set = strDunders
		if v.IsMarkup() {
			set = markupDunders
		}
	case value.KindList:
		set = listDunders
	case value.KindTuple:
		set = tupleDunders
	case value.KindDict:
		set = dictDunders
	case value.KindFloat:
		set = floatDunders
	case value.KindBool, value.KindInt, value.KindBig:
		set = intDunders
	case value.KindObject:
		if _, ok := v.AsObject().(*native); ok {
			set = callableDunders
		}
	}
	return strings.Contains(set, word)
}

// methodOf gives a method of a built-in type, nil if there is none.
func methodOf(v value.Value, name string) methodFunc {
	switch v.Kind() {
	case value.KindStr:
		if v.IsMarkup() {
			if m := markupMethods(name); m != nil {
				return m
			}
		}
		return strMethods(name)
	case value.KindBytes:
		return bytesMethods(name)
	case value.KindDict:
		return dictMethods(name)
	case value.KindList:
		return listMethods(name)
	case value.KindTuple:
		if name == "copy" {
			return nil
		}
		return listMethods(name)
	case value.KindFloat:
		return floatMethods(name)
	case value.KindBool, value.KindInt, value.KindBig:
		return intMethods(name)
	}
	return nil
}
