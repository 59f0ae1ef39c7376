package syntax

// The content formats a worker detects.
const (
	FormatString = "string" // a message's content is one text
	FormatOpenAI = "openai" // a message's content is a list of parts
)

// ContentFormat is the format that vLLM 0.32 detects: FormatOpenAI if a loop
// runs over the content of a message, over a macro parameter that a call fills
// with it, or, outside macros, over the bare name content.
func ContentFormat(t *Template) string {
	f := newFinder(t)
	if f.faulty {
		return FormatString
	}
	if f.loopsOverContent() || f.loopsOverBareContent() || f.loopsOverParameter() {
		return FormatOpenAI
	}
	return FormatString
}

// ContentFormatOld is the format that vLLM before 0.28 detects, which does not
// look into macros.
func ContentFormatOld(t *Template) string {
	f := newFinder(t)
	if !f.faulty && f.loopsOverContent() {
		return FormatOpenAI
	}
	return FormatString
}
