package casetest

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// autoRequest is what computed answers obey.
type autoRequest struct {
	Model         string `json:"model"`
	Stream        bool   `json:"stream"`
	N             int    `json:"n"`
	Echo          bool   `json:"echo"`
	StreamOptions *struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Prompt json.RawMessage `json:"prompt"`
	Input  json.RawMessage `json:"input"`
}

// inputs reads one text, one list of ids, or a list of either; each as it is printed, with its length.
func inputs(raw json.RawMessage) (shown []string, lengths []int) {
	n, err := parseTree(string(raw))
	if err != nil {
		return nil, nil
	}
	list := []*node{n}
	if n.kind == 'a' && len(n.items) > 0 && n.items[0].kind != 'n' {
		list = n.items
	}
	for _, v := range list {
		if v.kind == 's' {
			text := unquote(v.text)
			shown, lengths = append(shown, text), append(lengths, max(1, len(strings.Fields(text))))
			continue
		}
		ids := make([]string, 0, len(v.items))
		for _, id := range v.items {
			ids = append(ids, id.text)
		}
		shown, lengths = append(shown, strings.Join(ids, ",")), append(lengths, len(v.items))
	}
	return shown, lengths
}

// auto computes an answer from the request, as vLLM would shape it.
func (s *script) auto() bool {
	var q autoRequest
	if err := json.Unmarshal(s.request, &q); err != nil {
		return s.reply(&Answer{Status: 400, Body: json.RawMessage(`{"error":{"message":"bad","type":"x","param":null,"code":400}}`)})
	}
	if q.Model == "" {
		q.Model = "acme/tiny-chat"
	}
	q.N = max(q.N, 1)
	if s.answer.Auto == "embeddings" {
		return s.reply(&Answer{Body: embeddings(&q)})
	}
	g := s.generation(&q)
	if !q.Stream {
		return s.reply(&Answer{Body: g.whole()})
	}
	s.streamHead(&s.answer)
	for i, e := range g.events(q.StreamOptions != nil && q.StreamOptions.IncludeUsage) {
		if i > 0 && !s.pause(s.answer.GapMS) {
			return false
		}
		s.chunk(event([]byte(e)))
	}
	s.chunk([]byte("data: [DONE]\n\n"))
	return s.end("")
}

func embeddings(q *autoRequest) json.RawMessage {
	shown, lengths := inputs(q.Input)
	var data []string
	used := 0
	for i, text := range shown {
		n := len([]rune(text))
		if strings.Contains(string(q.Input), "[[") {
			n = lengths[i]
		}
		used += lengths[i]
		data = append(data, fmt.Sprintf(`{"object":"embedding","index":%d,"embedding":[%d,%d]}`, i, n, 2*n))
	}
	model := quote(q.Model)
	return fmt.Appendf(nil, `{"object":"list","data":[%s],"model":%s,"usage":{"prompt_tokens":%d,"total_tokens":%d}}`,
		strings.Join(data, ","), model, used, used)
}

// generation is a computed answer before it has a shape.
type generation struct {
	chat                 bool
	head                 string // members id, object, created, model
	texts                [][]string
	finish               string
	promptTokens, output int
}

func (s *script) generation(q *autoRequest) *generation {
	a := &s.answer
	g := &generation{chat: a.Auto == "chat", finish: a.Finish}
	if g.finish == "" {
		g.finish = "stop"
	}
	model := quote(q.Model)
	prefix, object := "cmpl-auto-", "text_completion"
	if g.chat {
		prefix, object = "chatcmpl-auto-", "chat.completion"
		if q.Stream {
			object += ".chunk"
		}
		pieces := a.Pieces
		if pieces == nil {
			pieces = []string{"ok"}
		}
		for range q.N {
			g.texts = append(g.texts, pieces)
		}
		g.promptTokens, g.output = a.PromptTokens, q.N*len(pieces)
		if g.promptTokens == 0 {
			g.promptTokens = 5
		}
	} else {
		shown, lengths := inputs(q.Prompt)
		for p, text := range shown {
			g.promptTokens += lengths[p]
			for j := range q.N {
				out := "R(" + text + ")"
				if q.N > 1 {
					out += "#" + strconv.Itoa(j)
				}
				if q.Echo {
					out = text + out
				}
				g.texts = append(g.texts, []string{out})
			}
		}
		g.output = len(g.texts)
	}
	g.head = fmt.Sprintf(`"id":"%s%d","object":"%s","created":1764500000,"model":%s`, prefix, s.number, object, model)
	return g
}

func (g *generation) usage() string {
	return fmt.Sprintf(`{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d}`,
		g.promptTokens, g.promptTokens+g.output, g.output)
}

// whole is the plain answer.
func (g *generation) whole() json.RawMessage {
	var choices []string
	for i, t := range g.texts {
		text := quote(strings.Join(t, ""))
		member := `"text":` + text
		if g.chat {
			member = `"message":{"role":"assistant","content":` + text + `}`
		}
		choices = append(choices, fmt.Sprintf(`{"index":%d,%s,"logprobs":null,"finish_reason":"%s"}`, i, member, g.finish))
	}
	return json.RawMessage(`{` + g.head + `,"choices":[` + strings.Join(choices, ",") + `],"usage":` + g.usage() + `}`)
}

// events is the streamed answer without its end mark.
func (g *generation) events(usage bool) []string {
	var out []string
	emit := func(i int, member, finish string) {
		out = append(out, fmt.Sprintf(`{%s,"choices":[{"index":%d,%s,"logprobs":null,"finish_reason":%s}]}`, g.head, i, member, finish))
	}
	part := func(s string) string {
		text := quote(s)
		if g.chat {
			return `"delta":{"content":` + text + `}`
		}
		return `"text":` + text
	}
	longest := 0
	for i, t := range g.texts {
		longest = max(longest, len(t))
		if g.chat {
			emit(i, `"delta":{"role":"assistant","content":""}`, "null")
		}
	}
	for k := range longest {
		for i, t := range g.texts {
			if k < len(t) {
				emit(i, part(t[k]), "null")
			}
		}
	}
	for i := range g.texts {
		emit(i, part(""), `"`+g.finish+`"`)
	}
	if usage {
		out = append(out, `{`+g.head+`,"choices":[],"usage":`+g.usage()+`}`)
	}
	return out
}
