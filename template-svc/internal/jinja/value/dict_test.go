package value

import (
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// modelDict is the naive model: a list of pairs that is searched with Equal.
type modelDict []Entry

func (d *modelDict) set(t *testing.T, k, v Value) {
	for i := range *d {
		same, err := Equal(meter(), (*d)[i].Key, k)
		require.NoError(t, err)
		if same {
			(*d)[i].Val = v
			return
		}
	}
	*d = append(*d, Entry{k, v})
}

// keyPool holds keys of every hashable kind, equal ones among them.
func keyPool() []Value {
	pool := []Value{
		None, True, False, Int(0), Int(1), Float(0), Float(1), Float(1.5), Int(-7), Float(-7), Str(""), Str("a"), Markup("a"), Str("1"),
		Big(new(big.Int).Lsh(big.NewInt(1), 70)), Float(1 << 70), Tuple(nil), Tuple([]Value{Int(1), Str("x")}),
		Tuple([]Value{Float(1), Str("x")}), Tuple([]Value{Tuple([]Value{Int(1)})}), Missing("x"), Missing("y"),
	}
	for c := 'b'; c < 'p'; c++ {
		pool = append(pool, Str(string(c)))
	}
	return pool
}

// TestDictAgainstModel fills dicts at random and compares with the model, below
// and above the size at which they get an index.
func TestDictAgainstModel(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	pool := keyPool()
	for range 200 {
		d := NewDict(0)
		var model modelDict
		for i := range rnd.IntN(40) {
			k := pool[rnd.IntN(len(pool))]
			require.NoError(t, d.Set(k, Int(int64(i))))
			model.set(t, k, Int(int64(i)))
		}
		require.Equal(t, len(model), d.Len())
		for i, e := range model {
			require.Equal(t, repr(t, e.Key), repr(t, d.Entries()[i].Key))
			require.Equal(t, repr(t, e.Val), repr(t, d.Entries()[i].Val))
			got, ok, err := d.Get(e.Key)
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, e.Val.AsInt(), got.AsInt())
		}
		same, err := Equal(meter(), OfDict(d), OfDict(d.Clone()))
		require.NoError(t, err)
		require.True(t, same)
	}
}

func TestDictDelete(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 5, 20} {
		d := NewDict(n)
		for i := range n {
			d.SetStr(string(rune('a'+i)), Int(int64(i)))
		}
		require.False(t, d.Delete("zz"))
		require.True(t, d.Delete("a"))
		require.Equal(t, n-1, d.Len())
		_, ok := d.GetStr("a")
		require.False(t, ok)
		if n > 1 {
			v, ok := d.GetStr("b")
			require.True(t, ok)
			require.Equal(t, int64(1), v.AsInt())
		}
	}
}

func TestUnhashable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		key  Value
		want string
	}{
		{"list", List(nil), "unhashable type: 'list'"},
		{"dict", OfDict(NewDict(0)), "unhashable type: 'dict'"},
		{"list in tuple", Tuple([]Value{Int(1), List(nil)}), "unhashable type: 'list'"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := NewDict(0)
			require.ErrorContains(t, d.Set(c.key, None), c.want)
			_, _, err := d.Get(c.key)
			require.ErrorContains(t, err, c.want)
			require.Zero(t, d.Len())
		})
	}
}

func TestValueKinds(t *testing.T) {
	t.Parallel()
	d := NewDict(1)
	d.SetStr("k", True)
	for _, c := range []struct {
		name, typeName, object string
		v                      Value
		truth                  bool
	}{
		{"undefined", "Undefined", "jinja2.runtime.Undefined object", Missing("x"), false},
		{"none", "NoneType", "None", None, false},
		{"bool", "bool", "bool object", True, true},
		{"int", "int", "int object", Int(-1), true},
		{"zero", "int", "int object", Int(0), false},
		{"big", "int", "int object", Big(new(big.Int).Lsh(big.NewInt(1), 80)), true},
		{"small big", "int", "int object", Big(big.NewInt(3)), true},
		{"float", "float", "float object", Float(0.5), true},
		{"zero float", "float", "float object", Float(0), false},
		{"str", "str", "str object", Str("x"), true},
		{"empty str", "str", "str object", Str(""), false},
		{"markup", "Markup", "markupsafe.Markup object", Markup("x"), true},
		{"list", "list", "list object", List([]Value{None}), true},
		{"empty list", "list", "list object", List(nil), false},
		{"tuple", "tuple", "tuple object", Tuple([]Value{None}), true},
		{"dict", "dict", "dict object", OfDict(d), true},
		{"empty dict", "dict", "dict object", OfDict(NewDict(0)), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.typeName, c.v.TypeName())
			require.Equal(t, c.object, c.v.ObjectText())
			require.Equal(t, c.truth, c.v.Truth())
			require.True(t, c.v.Same(c.v))
			same, err := Equal(meter(), c.v, c.v)
			require.NoError(t, err)
			require.True(t, same)
		})
	}
}

func TestMember(t *testing.T) {
	t.Parallel()
	d := NewDict(1)
	d.SetStr("a", Int(7))
	for _, c := range []struct {
		name string
		of   Value
		key  string
		has  bool
	}{
		{"there", OfDict(d), "a", true},
		{"not there", OfDict(d), "b", false},
		{"no dict", Int(7), "a", false},
		{"none", None, "a", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v, ok := Member(c.of, c.key)
			require.Equal(t, c.has, ok)
			if !c.has {
				require.Equal(t, KindNone, v.Kind())
				return
			}
			require.Equal(t, int64(7), v.AsInt())
		})
	}
}
