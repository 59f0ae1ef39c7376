package bench

import "time"

// scenario is one load and what its work is counted in.
type scenario struct {
	name string
	unit string
	load load
	work int // units of one run
}

// shorter divides a scenario's requests and work: many short runs find the least CPU on a busy machine, where long ones
// have the collection of garbage in them.
func (s scenario) shorter(by int) scenario {
	if s.load.plan == nil {
		s.load.count = max(1, s.load.count/s.load.lanes/by) * s.load.lanes
		s.work = s.load.count
	}
	return s
}

func scenarios() []scenario {
	step := 12 * time.Millisecond
	paced := &plan{events: 100, gap: step, bytes: 180}
	burst := &plan{events: 2000, bytes: 180}
	small, ask := shape{bytes: 1024, known: true}, shape{bytes: 1024, known: true, stream: true}
	return []scenario{
		{"1 KB chat, 16 clients", "request", load{lanes: 16, count: 3200, shape: small}, 3200},
		{"32 KB cold, 4 clients", "request", load{lanes: 4, count: 1200, shape: shape{bytes: 32 << 10}}, 1200},
		{"32 KB known, 4 clients", "request", load{lanes: 4, count: 1200, shape: shape{bytes: 32 << 10, known: true}}, 1200},
		{"1 KB chat, 1 client", "request", load{lanes: 1, count: 800, shape: small}, 800},
		{"paced in step, 100 streams", "token", load{lanes: 100, count: 100, shape: ask, plan: paced}, 100 * 100},
		{"paced apart, 100 streams", "token", load{lanes: 100, count: 100, shape: ask, plan: paced, spread: true}, 100 * 100},
		{"burst, 16 streams", "token", load{lanes: 16, count: 64, shape: ask, plan: burst}, 64 * 2000},
	}
}
