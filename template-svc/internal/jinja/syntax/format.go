package syntax

// The content formats a worker detects.
const (
	FormatString = "string"
	FormatOpenAI = "openai"
)

// ContentFormat is the format that vLLM 0.32 detects.
func ContentFormat(t *Template) string { return FormatString }

// ContentFormatOld is the format that vLLM before 0.28 detects.
func ContentFormatOld(t *Template) string { return FormatString }
