// Package syntax turns template source into a tree: a lexer that applies the
// whitespace rules of tags, a parser for Jinja2 3.1.6's grammar with loop
// controls and the generation tag, and the questions a service asks of a tree
// without rendering it.
package syntax

import "github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"

// Pos is a place in the source, both parts from 1, columns in code points.
type Pos struct{ Line, Col int }

// At gives the place of a node.
func (p Pos) At() Pos { return p }

// Node is any part of the tree.
type Node interface {
	At() Pos
}

// Expr is a node that has a value.
type Expr interface {
	Node
	expr()
}

// Access says whether a name is read or bound.
type Access uint8

// Load reads, Store binds by set or for, Param binds a parameter.
const (
	Load Access = iota
	Store
	Param
)

// Statements. A node without doc comment is what its name says; bodies are
// lists of statements.
type (
	// Template is the root.
	Template struct {
		Pos
		Body []Node
	}
	// Output prints expressions; plain text of the source is a *Text.
	Output struct {
		Pos
		Nodes []Expr
	}
	// For is a loop; Test and Else may be nil.
	For struct {
		Pos
		Target    Expr
		Iter      Expr
		Test      Expr
		Body      []Node
		Else      []Node
		Recursive bool
	}
	// If with its elifs, which have neither Elif nor Else of their own.
	If struct {
		Pos
		Test Expr
		Body []Node
		Elif []*If
		Else []Node
	}
	// Signature is the parameter list of a macro or call block; Defaults
	// belong to the last parameters.
	Signature struct {
		Params   []*Name
		Defaults []Expr
	}
	// Macro defines a macro.
	Macro struct {
		Pos
		Signature
		Name string
		Body []Node
	}
	// CallBlock calls Call with the body as caller.
	CallBlock struct {
		Pos
		Signature
		Call *Call
		Body []Node
	}
	// Generation is the body of a generation tag: a scope of its own.
	Generation struct {
		Pos
		Body []Node
	}
	// FilterBlock prints its body through Filter, whose innermost Node is nil.
	FilterBlock struct {
		Pos
		Filter *Filter
		Body   []Node
	}
	// With binds Targets to Values for its body.
	With struct {
		Pos
		Targets []Expr
		Values  []Expr
		Body    []Node
	}
	// Block is a named block, printed where it stands.
	Block struct {
		Pos
		Name     string
		Scoped   bool
		Required bool
		Body     []Node
	}
	// Set binds Target to the value of Expr.
	Set struct {
		Pos
		Target Expr
		Value  Expr
	}
	// SetBlock binds Target to the text of its body, through Filter if not nil.
	SetBlock struct {
		Pos
		Target Expr
		Filter *Filter
		Body   []Node
	}
	// Autoescape sets escaping for its body.
	Autoescape struct {
		Pos
		On   Expr
		Body []Node
	}
	// Break ends the innermost loop.
	Break struct{ Pos }
	// Continue starts the next round of the innermost loop.
	Continue struct{ Pos }
	// Loader is include, import, from or extends: reaching it fails, as there
	// is no loader. Names are what an import would bind.
	Loader struct {
		Pos
		Tag      string
		Template Expr
		Names    []string
		// IgnoreMissing is "ignore missing" of an include.
		IgnoreMissing bool
	}
)

// Expressions.
type (
	// Text is plain source text.
	Text struct {
		Pos
		Data string
	}
	// Name is a variable.
	Name struct {
		Pos
		Name string
		Ctx  Access
	}
	// NSRef is the target ns.attr of a set.
	NSRef struct {
		Pos
		Name string
		Attr string
	}
	// Const is a literal.
	Const struct {
		Pos
		Value value.Value
	}
	// Tuple is a tuple literal or a target list.
	Tuple struct {
		Pos
		Items []Expr
	}
	// List is a list literal.
	List struct {
		Pos
		Items []Expr
	}
	// Dict is a dict literal; Keys and Values have one length.
	Dict struct {
		Pos
		Keys   []Expr
		Values []Expr
	}
	// Cond is "Then if Test else Else"; Else may be nil.
	Cond struct {
		Pos
		Test Expr
		Then Expr
		Else Expr
	}
	// Keyword is name=value in a call.
	Keyword struct {
		Key   string
		Value Expr
	}
	// Args are a call's arguments; Star and StarStar may be nil.
	Args struct {
		Pos      []Expr
		Kw       []Keyword
		Star     Expr
		StarStar Expr
	}
	// Filter is Node|Name(Args); Node is nil for a block's text.
	Filter struct {
		Pos
		Node Expr
		Name string
		Args Args
	}
	// Test is "Node is Name(Args)".
	Test struct {
		Pos
		Node Expr
		Name string
		Args Args
	}
	// Call is Func(Args).
	Call struct {
		Pos
		Func Expr
		Args Args
	}
	// Getattr is Node.Attr.
	Getattr struct {
		Pos
		Node Expr
		Attr string
	}
	// Getitem is Node[Arg]; Arg may be a *Slice.
	Getitem struct {
		Pos
		Node Expr
		Arg  Expr
	}
	// Slice is Start:Stop:Step; each may be nil.
	Slice struct {
		Pos
		Start, Stop, Step Expr
	}
	// Concat joins texts with ~.
	Concat struct {
		Pos
		Nodes []Expr
	}
	// Operand is one step of a chained comparison.
	Operand struct {
		Op   string // eq ne lt lteq gt gteq in notin
		Expr Expr
	}
	// Compare is a chain of comparisons.
	Compare struct {
		Pos
		Expr Expr
		Ops  []Operand
	}
	// Binary is + - * / // % ** and or.
	Binary struct {
		Pos
		Op          string
		Left, Right Expr
	}
	// Unary is not, - or +.
	Unary struct {
		Pos
		Op   string
		Node Expr
	}
)

func (*Text) expr()    {}
func (*Name) expr()    {}
func (*NSRef) expr()   {}
func (*Const) expr()   {}
func (*Tuple) expr()   {}
func (*List) expr()    {}
func (*Dict) expr()    {}
func (*Cond) expr()    {}
func (*Filter) expr()  {}
func (*Test) expr()    {}
func (*Call) expr()    {}
func (*Getattr) expr() {}
func (*Getitem) expr() {}
func (*Slice) expr()   {}
func (*Concat) expr()  {}
func (*Compare) expr() {}
func (*Binary) expr()  {}
func (*Unary) expr()   {}
