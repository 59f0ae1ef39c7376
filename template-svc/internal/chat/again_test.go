package chat

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// againTemplate prints everything of a message that may lie in a reader's memory.
const againTemplate = `{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls or [] %}` +
	`[{{ c.function.name }} {{ c.function.arguments|tojson }}]{% endfor %}{% endfor %}`

// againConversation is a conversation of n messages whose texts need unescaping, each unlike those of another seed.
func againConversation(t *testing.T, seed, n int) (raw []byte, want string) {
	t.Helper()
	var messages []map[string]any
	var text strings.Builder
	for i := range n {
		content := strings.Repeat(fmt.Sprintf("\"%d.%d\"\n\té", seed, i), 1+(seed+i)%40)
		role := []string{"user", "assistant"}[i%2]
		m := map[string]any{"role": role, "content": content}
		fmt.Fprintf(&text, "<%s>%s", role, content)
		if i%4 == 1 {
			m["tool_calls"] = []any{map[string]any{"id": "c", "type": "function", "function": map[string]any{
				"name": fmt.Sprintf("f\\%d", seed), "arguments": map[string]any{"k": fmt.Sprintf("v%d", i)},
			}}}
			fmt.Fprintf(&text, "[f\\%d {\"k\": \"v%d\"}]", seed, i)
		}
		messages = append(messages, m)
	}
	raw, err := json.Marshal(messages)
	require.NoError(t, err)
	return raw, text.String()
}

// TestPromptsKeepTheirText: the memory that messages are read into serves the next request, and no earlier prompt shows
// it; requests that are refused or fail in between leave nothing behind.
func TestPromptsKeepTheirText(t *testing.T) {
	t.Parallel()
	m, err := New(map[string]string{"default": againTemplate}, "", nil, Options{})
	require.NoError(t, err)
	var wg sync.WaitGroup
	for lane := range 4 {
		var bodies [60][]byte
		var want [60]string
		for k := range bodies {
			bodies[k], want[k] = againConversation(t, lane*100+k, 1+(k*7)%90)
		}
		wg.Go(func() {
			var got []Result
			for k, raw := range bodies {
				if k%5 == 4 {
					_, err := m.Render(context.Background(), &Request{MessagesJSON: raw[:len(raw)-1-k%9]})
					assert.Error(t, err)
				}
				r, err := m.Render(context.Background(), &Request{MessagesJSON: raw})
				assert.NoError(t, err)
				got = append(got, r)
			}
			for i := range got {
				assert.Equal(t, want[i], string(got[i].Text), "lane %d, prompt %d", lane, i)
			}
		})
	}
	wg.Wait()
}
