package modelfile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Stamp changes when one of the files that Load reads is written, replaced, added or removed, and when the folder
// resolves to another. It reads no contents.
func Stamp(path, model string) string {
	dir, err := Resolve(path, model)
	if err != nil {
		dir = path
	}
	names := []string{
		"tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja", "chat_template.json", "config.json",
		"preprocessor_config.json", "processor_config.json", "tekken.json",
	}
	var out strings.Builder
	out.WriteString(dir)
	for _, name := range names {
		out.WriteString(StampOf(filepath.Join(dir, name)))
	}
	more, _ := filepath.Glob(filepath.Join(dir, additionalFolder, "*.jinja")) // the pattern is a good one
	for _, path := range more {
		out.WriteString("|" + filepath.Base(path) + StampOf(path))
	}
	return out.String()
}

// StampOf is the part of a stamp that one file gives: its size and time, or that it is not there.
func StampOf(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return "|-"
	}
	return fmt.Sprintf("|%d.%d", info.Size(), info.ModTime().UnixNano())
}
