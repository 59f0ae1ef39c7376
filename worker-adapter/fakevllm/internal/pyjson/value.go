// Package pyjson reads JSON the way Python's json module does, because a vLLM server's answers to odd bodies are
// Python's: duplicate keys are allowed and the last one wins, NaN and Infinity are numbers, a lone surrogate is a
// string, and the message and character position of a syntax error reach the client.
//
// A list in which every element is an integer is kept as []int64: prompts of a hundred thousand token ids are usual.
package pyjson

// Kind is the JSON type of a Value, integers and other numbers apart as in Python.
type Kind uint8

// The kinds. The zero Value is Missing: what Get returns for an absent key.
const (
	Missing Kind = iota
	Null
	Bool
	Int
	Float
	String
	List
	Dict
)

// Member is one key of an object, in document order.
type Member struct {
	Key   string
	Value Value
}

// Value is one JSON value. Only the fields of its Kind are set; Raw are its bytes in the document, shared with it.
type Value struct {
	Kind    Kind
	Bool    bool
	Int     int64
	Float   float64
	Str     string
	Ints    []int64
	Items   []Value
	Members []Member
	Raw     []byte
}

// IsNull tells whether the value is absent or null, which pydantic treats alike where the default is None.
func (v *Value) IsNull() bool { return v.Kind == Missing || v.Kind == Null }

// Get returns the last member with that key, or a Missing value.
func (v *Value) Get(key string) *Value {
	for i := len(v.Members) - 1; i >= 0; i-- {
		if v.Members[i].Key == key {
			return &v.Members[i].Value
		}
	}
	return &Value{}
}

// Len is the number of elements of a list or of distinct keys of an object.
func (v *Value) Len() int {
	if v.Kind == List {
		return max(len(v.Ints), len(v.Items))
	}
	seen := make(map[string]struct{}, len(v.Members))
	for i := range v.Members {
		seen[v.Members[i].Key] = struct{}{}
	}
	return len(seen)
}

// At returns element i of a list, also of one that is kept as integers; Missing if there is none.
func (v *Value) At(i int) Value {
	if i >= max(len(v.Ints), len(v.Items)) {
		return Value{}
	}
	if v.Ints != nil {
		return Value{Kind: Int, Int: v.Ints[i], Float: float64(v.Ints[i])}
	}
	return v.Items[i]
}

// AllInts tells whether the value is a list whose every element is an integer; true for the empty list.
func (v *Value) AllInts() bool { return v.Kind == List && len(v.Items) == 0 }
