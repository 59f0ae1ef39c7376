package kvblock_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kvmesh/kvmesh/services/kit/kvblock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// goldenVector is one row of testdata/golden.json. Numbers of 64 bits are hexadecimal text: JSON readers round them.
type goldenVector struct {
	Name        string   `json:"name"`
	Model       string   `json:"model"`
	LoRA        string   `json:"lora"`
	Salt        string   `json:"salt"`
	ItemKey     string   `json:"item_key"`
	ItemOffset  int64    `json:"item_offset_tokens"`
	ItemUnit    int      `json:"item_unit"`
	BlockTokens int      `json:"block_tokens"`
	IDs         []uint32 `json:"ids"`
	Root        string   `json:"root"`
	Hashes      []string `json:"hashes"`
}

func (v goldenVector) namespace() kvblock.Namespace {
	return kvblock.Namespace{Model: v.Model, LoRA: v.LoRA}
}

// goldenInputs are the rows without their results.
func goldenInputs() []goldenVector {
	seq := func(n int, step uint32) []uint32 {
		ids := make([]uint32, n)
		for i := range ids {
			ids[i] = uint32(i) * step
		}
		return ids
	}
	const model = "meta-llama/Llama-3.1-8B-Instruct"
	return []goldenVector{
		{Name: "plain", Model: model, BlockTokens: 16, IDs: seq(40, 1)},
		{Name: "no full unit", Model: model, BlockTokens: 16, IDs: seq(15, 1)},
		{Name: "exact units", Model: model, BlockTokens: 16, IDs: seq(32, 7)},
		{Name: "lora", Model: model, LoRA: "sql", BlockTokens: 16, IDs: seq(40, 1)},
		{Name: "salt", Model: model, Salt: "tenant-a", BlockTokens: 16, IDs: seq(40, 1)},
		{Name: "largest ids", Model: "m", BlockTokens: 16, IDs: seq(16, 0x0fffffff)},
		{Name: "blocks of 20", Model: model, BlockTokens: 20, IDs: seq(40, 1)},
		{Name: "blocks of 1 with salt", Model: model, Salt: "s", BlockTokens: 1, IDs: seq(3, 1)},
		{Name: "image in unit 1", Model: model, BlockTokens: 16, IDs: seq(40, 1), ItemKey: "img", ItemUnit: 1, ItemOffset: -3},
		{Name: "empty model", BlockTokens: 16, IDs: seq(16, 3)},
	}
}

// TestGolden holds the implementation to the committed vectors. With KVMESH_WRITE_GOLDEN=1 the naive model writes them
// anew; a change of a vector is a change of the scheme and needs a new rootSeed.
func TestGolden(t *testing.T) {
	t.Parallel()
	const path = "testdata/golden.json"
	if os.Getenv("KVMESH_WRITE_GOLDEN") == "1" {
		require.NoError(t, os.WriteFile(path, writeGolden(t), 0o644))
	}
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	var vectors []goldenVector
	require.NoError(t, json.Unmarshal(raw, &vectors))
	require.Len(t, vectors, len(goldenInputs()))
	for _, v := range vectors {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			root := v.namespace().Root()
			require.Equal(t, v.Root, hex(root))
			var got []uint64
			if v.ItemKey != "" {
				got = kvblock.AppendUnitsExtra(nil, root, v.IDs, func(unit int) []byte {
					if unit != v.ItemUnit {
						return nil
					}
					return kvblock.MMExtra(v.ItemKey, v.ItemOffset)
				})
			} else {
				got = kvblock.AppendBlocks(nil, root, v.IDs, v.BlockTokens, v.Salt)
			}
			require.Equal(t, v.Hashes, hexAll(got))
		})
	}
}

func writeGolden(t *testing.T) []byte {
	t.Helper()
	vectors := goldenInputs()
	for i := range vectors {
		v := &vectors[i]
		extraOf := saltFirst(v.Salt)
		if v.ItemKey != "" {
			extraOf = func(unit int) []byte {
				if unit != v.ItemUnit {
					return nil
				}
				return naiveExtra(kvblock.Extra{Items: []kvblock.Item{{Key: v.ItemKey, OffsetTokens: v.ItemOffset}}})
			}
		}
		root := naiveRoot(v.namespace())
		v.Root = hex(root)
		v.Hashes = hexAll(naiveChain(root, v.IDs, v.BlockTokens, extraOf))
	}
	var out []byte
	for i, v := range vectors {
		line, err := json.Marshal(v)
		require.NoError(t, err)
		out = append(out, "[,"[min(i, 1)])
		out = append(append(out, '\n'), line...)
	}
	return append(out, "\n]\n"...)
}

func hex(h uint64) string { return fmt.Sprintf("%016x", h) }

func hexAll(hs []uint64) []string {
	out := make([]string, len(hs))
	for i, h := range hs {
		out[i] = hex(h)
	}
	return out
}

// TestAgainstNaive compares random prompts, block sizes and salts with the naive model, whole and step by step.
func TestAgainstNaive(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		n := kvblock.Namespace{Model: randomText(rnd, 20), LoRA: randomText(rnd, 5)}
		tokens := []int{16, 16, 1, 5, 20, 48, 100}[rnd.IntN(7)]
		ids := randomIDs(rnd, rnd.IntN(300))
		salt := randomText(rnd, 3)
		root := n.Root()
		require.Equal(t, naiveRoot(n), root)
		want := append([]uint64{42}, naiveChain(root, ids, tokens, saltFirst(salt))...)
		require.Equal(t, want, kvblock.AppendBlocks([]uint64{42}, root, ids, tokens, salt))

		blockRoot := kvblock.BlockRoot(root, tokens)
		prev, extra := blockRoot, kvblock.SaltExtra(salt)
		for i, h := range want[1:] {
			prev = kvblock.Next(blockRoot, prev, ids[i*tokens:(i+1)*tokens], extra)
			require.Equal(t, h, prev)
			extra = nil
		}
		if tokens == kvblock.UnitTokens {
			require.Equal(t, want, kvblock.AppendUnits([]uint64{42}, root, ids, salt))
			require.Equal(t, want[1:], append([]uint64{}, kvblock.AppendUnitsExtra(nil, root, ids, saltFirst(salt))...))
		}
	}
}

func TestAppendBlocksRefusesSizeZero(t *testing.T) {
	t.Parallel()
	require.Nil(t, kvblock.AppendBlocks(nil, 1, []uint32{1, 2}, 0, ""))
	require.Nil(t, kvblock.AppendBlocks(nil, 1, []uint32{1, 2}, -4, ""))
	require.Nil(t, kvblock.AppendUnits(nil, 1, nil, "salt"))
}

// TestDistinct lists inputs that naive concatenation would confuse; all their hashes differ.
func TestDistinct(t *testing.T) {
	t.Parallel()
	ids := randomIDs(rand.New(rand.NewPCG(3, 4)), 48)
	root := kvblock.Namespace{Model: "m"}.Root()
	item := kvblock.MMExtra
	cases := map[string]uint64{
		"model ab":         kvblock.Namespace{Model: "ab"}.Root(),
		"model a lora b":   kvblock.Namespace{Model: "a", LoRA: "b"}.Root(),
		"lora ab":          kvblock.Namespace{LoRA: "ab"}.Root(),
		"empty":            kvblock.Namespace{}.Root(),
		"plain":            kvblock.Next(root, root, ids[:16], nil),
		"salt ab":          kvblock.Next(root, root, ids[:16], kvblock.SaltExtra("ab")),
		"salt a item b":    kvblock.Next(root, root, ids[:16], append(kvblock.SaltExtra("a"), item("b", 0)...)),
		"item ab":          kvblock.Next(root, root, ids[:16], item("ab", 0)),
		"item a, item b":   kvblock.Next(root, root, ids[:16], append(item("a", 0), item("b", 0)...)),
		"item b, item a":   kvblock.Next(root, root, ids[:16], append(item("b", 0), item("a", 0)...)),
		"item ab offset 1": kvblock.Next(root, root, ids[:16], item("ab", 1)),
		"item ab offset-1": kvblock.Next(root, root, ids[:16], item("ab", -1)),
		"second unit":      kvblock.Next(root, 1, ids[:16], nil),
		"swapped ids":      kvblock.Next(root, root, append([]uint32{ids[1], ids[0]}, ids[2:16]...), nil),
		"block of 17":      kvblock.AppendBlocks(nil, root, ids[:17], 17, "")[0],
		"block of 8":       kvblock.AppendBlocks(nil, root, ids[:8], 8, "")[0],
	}
	seen := map[uint64]string{}
	for name, h := range cases {
		require.Empty(t, seen[h], "%s has the hash of another case", name)
		seen[h] = name
	}
}

func TestExtras(t *testing.T) {
	t.Parallel()
	require.Nil(t, kvblock.SaltExtra(""))
	require.Empty(t, kvblock.AppendExtra(nil, kvblock.Extra{}))
	x := kvblock.Extra{Salt: "s", Items: []kvblock.Item{{Key: "a", OffsetTokens: 1}, {Key: "b", OffsetTokens: -9}}}
	want := append(append(kvblock.SaltExtra("s"), kvblock.MMExtra("a", 1)...), kvblock.MMExtra("b", -9)...)
	require.Equal(t, want, kvblock.AppendExtra(nil, x))
	require.Equal(t, naiveExtra(x), want)
}

func TestPutIDsSameOnEveryByteOrder(t *testing.T) {
	t.Parallel()
	for n := range 40 {
		ids := randomIDs(rand.New(rand.NewPCG(5, uint64(n))), n)
		fast, portable := make([]byte, n*4), make([]byte, n*4)
		kvblock.PutIDs(fast, ids)
		kvblock.PutIDsPortable(portable, ids)
		require.Equal(t, portable, fast)
	}
}

// FuzzAppend feeds arbitrary prompts to the chain and compares with the naive model.
func FuzzAppend(f *testing.F) {
	f.Add([]byte("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef01234567"), "salt", uint8(16))
	f.Add([]byte{}, "", uint8(0))
	f.Fuzz(func(t *testing.T, raw []byte, salt string, tokens uint8) {
		ids := make([]uint32, len(raw)/4)
		for i := range ids {
			ids[i] = binary.BigEndian.Uint32(raw[4*i:])
		}
		got := kvblock.AppendBlocks(nil, 7, ids, int(tokens), salt)
		if tokens == 0 {
			require.Nil(t, got)
			return
		}
		require.Equal(t, naiveChain(7, ids, int(tokens), saltFirst(salt)), got)
	})
}

func BenchmarkAppendUnits8192(b *testing.B) {
	ids := randomIDs(rand.New(rand.NewPCG(6, 6)), 8192)
	dst := make([]uint64, 0, 512)
	b.ReportAllocs()
	for b.Loop() {
		dst = kvblock.AppendUnits(dst[:0], 99, ids, "")
	}
}

func BenchmarkNext(b *testing.B) {
	ids := randomIDs(rand.New(rand.NewPCG(6, 7)), kvblock.UnitTokens)
	prev := uint64(99)
	b.ReportAllocs()
	for b.Loop() {
		prev = kvblock.Next(99, prev, ids, nil)
	}
}

func randomIDs(rnd *rand.Rand, n int) []uint32 {
	ids := make([]uint32, n)
	for i := range ids {
		ids[i] = rnd.Uint32()
	}
	return ids
}

func randomText(rnd *rand.Rand, most int) string {
	b := make([]byte, rnd.IntN(most+1))
	for i := range b {
		b[i] = byte('a' + rnd.IntN(26))
	}
	return string(b)
}

// TestAppendRest cuts the ids of a chain anywhere: what it goes on with is what the whole gives.
func TestAppendRest(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		ids := make([]uint32, rng.IntN(100))
		for i := range ids {
			ids[i] = rng.Uint32()
		}
		salt := []string{"", "tenant"}[rng.IntN(2)]
		var got []uint64
		for rest := ids; ; {
			n := rng.IntN(len(rest) + 1)
			before := len(got)
			got = kvblock.AppendRest(got, 7, rest[:n], salt)
			rest = rest[(len(got)-before)*kvblock.UnitTokens:]
			if n == len(rest) && len(got) == before {
				break
			}
		}
		require.Equal(t, kvblock.AppendUnits(nil, 7, ids, salt), got)
	}
}
