package casetest

import "encoding/json"

// Expect is what must be seen.
type Expect struct {
	Status       json.RawMessage            `json:"status"`
	Headers      map[string]json.RawMessage `json:"headers"`
	Body         []Check                    `json:"body"`
	Raw          *TextCheck                 `json:"raw"`
	Relayed      string                     `json:"relayed"`
	OwnError     bool                       `json:"own_error"`
	SSE          *SSE                       `json:"sse"`
	Upstream     *Upstream                  `json:"upstream"`
	MaxMS        int                        `json:"max_ms"`
	MinMS        int                        `json:"min_ms"`
	After        []string                   `json:"after"`
	StatusCounts map[string]Range           `json:"status_counts"`
	OrAborted    bool                       `json:"or_aborted"`
}

// Check is one condition on a place in a JSON document.
type Check struct {
	At       string            `json:"at"`
	Equals   json.RawMessage   `json:"equals"`
	Raw      *string           `json:"raw"`
	Absent   bool              `json:"absent"`
	Present  bool              `json:"present"`
	Type     string            `json:"type"`
	Matches  *string           `json:"matches"`
	Contains *string           `json:"contains"`
	Length   *int              `json:"length"`
	Keys     []string          `json:"keys"`
	OneOf    []json.RawMessage `json:"one_of"`
	Min      *float64          `json:"min"`
	Max      *float64          `json:"max"`
}

// TextCheck is conditions on a text.
type TextCheck struct {
	Equals      *string  `json:"equals"`
	Contains    []string `json:"contains"`
	NotContains []string `json:"not_contains"`
	Matches     *string  `json:"matches"`
}

// HeaderCheck is conditions on the lines of one header.
type HeaderCheck struct {
	Matches  *string `json:"matches"`
	Contains *string `json:"contains"`
	Absent   bool    `json:"absent"`
	Present  bool    `json:"present"`
	Count    *int    `json:"count"`
	MaxCount *int    `json:"max_count"`
}

// Range is a number or bounds.
type Range struct {
	Min, Max *int
}

// UnmarshalJSON reads both forms.
func (r *Range) UnmarshalJSON(b []byte) error {
	var n int
	if json.Unmarshal(b, &n) == nil {
		r.Min, r.Max = &n, &n
		return nil
	}
	var bounds struct {
		Min *int `json:"min"`
		Max *int `json:"max"`
	}
	err := json.Unmarshal(b, &bounds)
	r.Min, r.Max = bounds.Min, bounds.Max
	return err
}

// Holds tells whether n is inside.
func (r Range) Holds(n int) bool {
	return (r.Min == nil || n >= *r.Min) && (r.Max == nil || n <= *r.Max)
}

// SSE is conditions on an event stream.
type SSE struct {
	DataEqualsWorker   bool               `json:"data_equals_worker"`
	Done               json.RawMessage    `json:"done"`
	Events             *Range             `json:"events"`
	ErrorEvent         *bool              `json:"error_event"`
	Content            map[string]string  `json:"content"`
	Reasoning          map[string]string  `json:"reasoning"`
	ToolArgs           map[string]string  `json:"tool_args"`
	Finish             map[string]*string `json:"finish"`
	Names              []string           `json:"names"`
	Comments           *Range             `json:"comments"`
	FirstEventWithinMS int                `json:"first_event_within_ms"`
	GapWithinMS        int                `json:"gap_within_ms"`
	Chunks             []struct {
		Pick  json.RawMessage `json:"pick"`
		Check []Check         `json:"check"`
	} `json:"chunks"`
	SameID bool `json:"same_id"`
}

// Upstream is conditions on what the workers received.
type Upstream struct {
	Calls             *Range                     `json:"calls"`
	Path              string                     `json:"path"`
	WorkersUsed       *Range                     `json:"workers_used"`
	OnlyWorkers       []string                   `json:"only_workers"`
	Fidelity          string                     `json:"fidelity"`
	MayAdd            []string                   `json:"may_add"`
	Body              []Check                    `json:"body"`
	Raw               *TextCheck                 `json:"raw"`
	Headers           map[string]json.RawMessage `json:"headers"`
	Cancelled         *bool                      `json:"cancelled"`
	CancelledWithinMS int                        `json:"cancelled_within_ms"`
	Connections       *Range                     `json:"connections"`
}
