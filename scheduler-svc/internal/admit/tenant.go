package admit

import (
	"math"
	"sync"
)

// Weights of the virtual token counters: an output token costs about two of input; a cached one costs little but not
// nothing, since it occupies memory.
const (
	inputWeight  = 1.0
	cachedWeight = 0.1
	outputWeight = 2.0
)

// Tenants counts what each tenant was served. It is safe for concurrent use.
type Tenants struct {
	max int

	mu       sync.Mutex
	accounts map[string]*account
}

type account struct {
	spent  float64
	active int // requests waiting or in flight
}

// NewTenants keeps up to limit counters.
func NewTenants(limit int) *Tenants {
	return &Tenants{max: limit, accounts: map[string]*account{}}
}

// Begin tells of a tenant's request. One that returns from idleness is lifted to the least counter in use: it does not
// save up. A tenant beyond the bound shares the counter of the nameless.
func (t *Tenants) Begin(tenant string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.account(tenant)
	if a.active == 0 {
		if least := t.least(); !math.IsInf(least, 1) {
			a.spent = max(a.spent, least)
		}
	}
	a.active++
}

// End tells that a request has ended, however.
func (t *Tenants) End(tenant string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.account(tenant)
	a.active = max(0, a.active-1)
}

// ChargeInput books a prompt at dispatch.
func (t *Tenants) ChargeInput(tenant string, uncached, cached int) {
	t.charge(tenant, inputWeight*float64(uncached)+cachedWeight*float64(cached))
}

// ChargeOutput books an answer at its end.
func (t *Tenants) ChargeOutput(tenant string, tokens int) {
	t.charge(tenant, outputWeight*float64(tokens))
}

func (t *Tenants) charge(tenant string, cost float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.account(tenant).spent += cost
}

// Spent returns a tenant's counter.
func (t *Tenants) Spent(tenant string) float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.account(tenant).spent
}

// Len is the number of counters kept.
func (t *Tenants) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.accounts)
}

func (t *Tenants) account(tenant string) *account {
	a := t.accounts[tenant]
	if a != nil {
		return a
	}
	if len(t.accounts) >= t.max && !t.dropIdle() {
		tenant = ""
		if a = t.accounts[tenant]; a != nil {
			return a
		}
	}
	a = &account{}
	t.accounts[tenant] = a
	return a
}

// dropIdle makes room by forgetting idle tenants; they return at the least counter in use, as any idle one does.
func (t *Tenants) dropIdle() bool {
	dropped := false
	for name, a := range t.accounts {
		if a.active == 0 {
			delete(t.accounts, name)
			dropped = true
		}
	}
	return dropped
}

func (t *Tenants) least() float64 {
	least := math.Inf(1)
	for _, a := range t.accounts {
		if a.active > 0 {
			least = min(least, a.spent)
		}
	}
	return least
}
