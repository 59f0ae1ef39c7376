// Package probe makes the fixed texts on which two ways of encoding are compared before one is trusted: many
// languages, code, whitespace, odd Unicode, NUL, invalid UTF-8, and a tokenizer's own added tokens in every position
// that a chat template puts them.
package probe

import (
	_ "embed"
	"strings"
)

var (
	//go:embed text/english-and-code.txt
	english string
	//go:embed text/languages.txt
	languages string
)

// maxWoven bounds the added tokens used, spread over the list: DeepSeek V3 has 818, most of them placeholders.
const maxWoven = 96

// Texts returns the probes for a tokenizer with these added tokens. They are the same every time, about 45 KB.
func Texts(added []string) [][]byte {
	texts := append(blocks(english, 12), blocks(languages, 4)...)
	texts = append(texts, odd()...)
	texts = append(texts, english+languages, "")
	texts = append(texts, chats(spread(added))...)
	out := make([][]byte, len(texts))
	for i, text := range texts {
		out[i] = []byte(text)
	}
	return out
}

// blocks cuts text into pieces of n lines.
func blocks(text string, n int) []string {
	lines := strings.SplitAfter(text, "\n")
	var out []string
	for len(lines) > 0 {
		k := min(n, len(lines))
		out = append(out, strings.Join(lines[:k], ""))
		lines = lines[k:]
	}
	return out
}

// spread picks at most maxWoven tokens, evenly.
func spread(tokens []string) []string {
	if len(tokens) <= maxWoven {
		return tokens
	}
	out := make([]string, maxWoven)
	for i := range out {
		out[i] = tokens[i*len(tokens)/maxWoven]
	}
	return out
}

// odd returns texts at the edges of pre-tokenizers, normalizers and UTF-8.
func odd() []string {
	out := []string{
		"\x00", "a\x00b\x00\x00c", "\x00\x01\x02\x1b\x7f", "\xff\xfe\x80", "caf\xc3",
		"\xed\xa0\x80\xed\xb0\x80", "\xf4\x90\x80\x80x",
		"e\u0301 \u00e9 A\u030a \u212b \u1e9b\u0323 \ufb01 \u2126", "\uac00 \u1100\u1161\u11a8", "\u200b\u200d\ufeff\u00a0\u3000|\u2028\u2029\u0085",
		"1 12 123 1234 12345 1234567890 3.14159 1e-9 0x1F ١٢٣ ²³ ½ Ⅳ",
		"don't DON'T can't'VE I'LL 'tis we're'd 'S", "ﬁ ǅ ß ẞ İ ı ſ K",
		"a\r\nb\rc\n\nd\n \n  \n\te \t f",
		" leading", "trailing ", "  two  spaces  ", "\n", " ", "\t\t", "...!!!???---===",
		"_snake_case camelCase HTTPServer2",
		"👩🏽‍🚀👨‍👩‍👧‍👦🇩🇪🇫🇷❤️‍🔥 #️⃣", "กำลัง ภาษาไทย हिन्दी தமிழ் বাংলা မြန်မာ ខ្មែរ",
		"\U0001f9ff\U00010348\U0002070e\U000e0041\U0010ffff\ufffd",
		"<|", "<|im_", "|>", "<", "<<|>>", "▁ ▁▁ <0x0A> <0xFF> Ġ Ċ", "[UNK] [INST] <<SYS>> </s> <s>",
	}
	units := []string{" ", "\n", "\t", "\r\n", "a", "A", "1", ".", "é", "语", "😀", " a", "\u0301", "\x00", "=", "ab1 "}
	for _, unit := range units {
		for _, n := range []int{2, 3, 7, 64, 500} {
			out = append(out, "x"+strings.Repeat(unit, n)+"y")
		}
	}
	return out
}

// chats weaves the tokens through text: as a template does, without text between, and inside words.
func chats(tokens []string) []string {
	if len(tokens) == 0 {
		return nil
	}
	lines := strings.Split(english+languages, "\n")
	var turns, dense, broken strings.Builder
	for i, token := range tokens {
		next := tokens[(i+1)%len(tokens)]
		line := lines[i*7%len(lines)]
		turns.WriteString(token + "user\n" + line + next + "\n" + token + "assistant\n\n" + line + " " + next)
		dense.WriteString(token + next + token)
		broken.WriteString("word" + token + "word " + token + " \n" + token + "\u0301")
		broken.WriteString(token[:len(token)-1] + next + "\x00" + token + "1")
	}
	first, last := tokens[0], tokens[len(tokens)-1]
	return []string{
		turns.String(), dense.String(), broken.String(), first, first + last, " " + first + " " + last + " ",
		first + "system\nYou are helpful." + last + "\n" + first + "user\nHi" + last + "\n" + first + "assistant\n",
	}
}
