//go:build realvllm

package realvllm

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// adapterFolder writes a LoRA adapter of rank 8 with random weights, as PEFT stores one.
func adapterFolder(t *testing.T, seed uint64) string {
	t.Helper()
	const rank, hidden, layers = 8, 128, 2
	dir := t.TempDir()
	config := fmt.Sprintf(`{"peft_type":"LORA","r":%d,"lora_alpha":16,"target_modules":["q_proj","v_proj"],"task_type":"CAUSAL_LM",`+
		`"bias":"none","base_model_name_or_path":"x","lora_dropout":0.0}`, rank)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "adapter_config.json"), []byte(config), 0o600))
	type tensor struct {
		Type    string `json:"dtype"`
		Shape   [2]int `json:"shape"`
		Offsets [2]int `json:"data_offsets"`
	}
	head, r := map[string]tensor{}, rand.New(rand.NewPCG(seed, 0))
	var data bytes.Buffer
	add := func(name string, rows, columns int) {
		from := data.Len()
		for range rows * columns {
			_ = binary.Write(&data, binary.LittleEndian, math.Float32bits(float32(r.NormFloat64())/10))
		}
		head[name] = tensor{"F32", [2]int{rows, columns}, [2]int{from, data.Len()}}
	}
	for layer := range layers {
		for _, module := range []string{"q_proj", "v_proj"} {
			name := fmt.Sprintf("base_model.model.model.layers.%d.self_attn.%s.lora_", layer, module)
			add(name+"A.weight", rank, hidden)
			add(name+"B.weight", hidden, rank)
		}
	}
	index, err := json.Marshal(head)
	require.NoError(t, err)
	file := binary.LittleEndian.AppendUint64(nil, uint64(len(index)))
	file = append(append(file, index...), data.Bytes()...)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "adapter_model.safetensors"), file, 0o600))
	return dir
}
