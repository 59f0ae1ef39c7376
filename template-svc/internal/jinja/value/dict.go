package value

// Dicts keep the order of insertion. Small ones, which messages and tools
// are, are searched from the front; large ones have an index.

// indexAbove is the number of entries above which a dict keeps a hash index:
// below it a scan over short keys is faster than hashing one.
const indexAbove = 8

// Entry is one key with its value.
type Entry struct {
	Key, Val Value
}

// Dict is an insertion-ordered mapping: a repeated key keeps its first place
// and takes the last value. Fill it, wrap it with OfDict, then leave it alone.
type Dict struct {
	entries []Entry
	index   map[hashKey]int32
}

// NewDict makes an empty dict with room for n entries.
func NewDict(n int) *Dict { return &Dict{entries: make([]Entry, 0, n)} }

// NewDicts makes n empty dicts with room for so many entries each, all in one
// piece of memory.
func NewDicts(n, room int) []Dict {
	dicts, entries := make([]Dict, n), make([]Entry, n*room)
	for i := range dicts {
		dicts[i].entries = entries[i*room : i*room : (i+1)*room]
	}
	return dicts
}

// Len is the number of entries.
func (d *Dict) Len() int { return len(d.entries) }

// Entries gives the entries in order; they must not be changed.
func (d *Dict) Entries() []Entry { return d.entries }

// find gives the place of key, -1 if absent.
func (d *Dict) find(key Value) (int, error) {
	if d.index == nil && key.k == KindStr {
		return d.scan(key.AsStr()), nil
	}
	h, err := hash(key)
	if err != nil {
		return -1, err
	}
	if d.index != nil {
		if i, ok := d.index[h]; ok {
			return int(i), nil
		}
		return -1, nil
	}
	for i := range d.entries {
		if e, err := hash(d.entries[i].Key); err == nil && e == h {
			return i, nil
		}
	}
	return -1, nil
}

// scan finds a string key in a dict without an index.
func (d *Dict) scan(key string) int {
	for i := range d.entries {
		e := &d.entries[i]
		if e.Key.n == uint64(len(key)) && e.Key.k == KindStr && e.Key.AsStr() == key {
			return i
		}
	}
	return -1
}

// Member gives a dict's value; None and false when v is no dict or has no such key.
func Member(v Value, key string) (Value, bool) {
	if v.Kind() != KindDict {
		return None, false
	}
	got, ok := v.AsDict().GetStr(key)
	if !ok {
		return None, false
	}
	return got, true
}

// GetStr gives the value of a string key.
func (d *Dict) GetStr(key string) (Value, bool) {
	var i int
	if d.index == nil {
		i = d.scan(key)
	} else if at, ok := d.index[hashKey{k: KindStr, s: key}]; ok {
		i = int(at)
	} else {
		i = -1
	}
	if i < 0 {
		return Value{}, false
	}
	return d.entries[i].Val, true
}

// Get gives the value of key: TypeError if key is unhashable.
func (d *Dict) Get(key Value) (Value, bool, error) {
	i, err := d.find(key)
	if err != nil || i < 0 {
		return Value{}, false, err
	}
	return d.entries[i].Val, true, nil
}

// Set puts a value under key: TypeError if key is unhashable.
func (d *Dict) Set(key, val Value) error {
	i, err := d.find(key)
	if err != nil {
		return err
	}
	if i >= 0 {
		d.entries[i].Val = val
		return nil
	}
	d.push(key, val)
	return nil
}

// SetStr puts a value under a string key.
func (d *Dict) SetStr(key string, val Value) {
	_ = d.Set(Str(key), val) // a string is always hashable
}

// push appends an entry whose key is known to be absent and hashable.
func (d *Dict) push(key, val Value) {
	d.entries = append(d.entries, Entry{key, val})
	switch n := len(d.entries); {
	case d.index != nil:
		h, _ := hash(key)
		d.index[h] = int32(n - 1)
	case n > indexAbove:
		d.index = make(map[hashKey]int32, 2*n)
		for i := range d.entries {
			h, _ := hash(d.entries[i].Key)
			d.index[h] = int32(i)
		}
	}
}

// Delete takes key out, keeping the order of the rest; it reports whether key
// was there. It serves builders alone.
func (d *Dict) Delete(key string) bool {
	at := -1
	for i := range d.entries {
		if d.entries[i].Key.k == KindStr && d.entries[i].Key.AsStr() == key {
			at = i
		}
	}
	if at < 0 {
		return false
	}
	old := d.entries
	d.entries, d.index = make([]Entry, 0, len(old)), nil
	for i := range old {
		if i != at {
			d.push(old[i].Key, old[i].Val)
		}
	}
	return true
}

// Clone gives a dict of its own with the same entries, for a changed copy.
func (d *Dict) Clone() *Dict {
	c := NewDict(len(d.entries) + 1)
	for i := range d.entries {
		c.push(d.entries[i].Key, d.entries[i].Val)
	}
	return c
}
