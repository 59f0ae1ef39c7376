package syntax

// Everything that walks a tree recurses; the height bounds the stack that
// it needs.

// height gives the number of levels of the tree under n, which the parser's
// own limits keep far from exhausting the stack.
func height(n Node) int {
	h := 0
	Children(n, func(c Node) { h = max(h, height(c)) })
	return h + 1
}
