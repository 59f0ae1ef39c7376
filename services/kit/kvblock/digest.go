package kvblock

// Digest summarises a multiset of unit hashes: equal sets have equal values in whatever order they were built, and a
// unit can be taken out again. The adapter sends it in heartbeats and the scheduler compares. The zero Digest is the
// empty set's. It finds faults, not attackers, and is not safe for concurrent use.
type Digest struct{ sum uint64 }

// Add puts one copy of unit into the set. A unit held in two tiers is added twice.
func (d *Digest) Add(unit uint64) { d.sum += mix(unit) }

// Remove takes one copy of unit out of the set.
func (d *Digest) Remove(unit uint64) { d.sum -= mix(unit) }

// AddAll puts one copy of each unit into the set.
func (d *Digest) AddAll(units []uint64) {
	for _, u := range units {
		d.sum += mix(u)
	}
}

// RemoveAll takes one copy of each unit out of the set.
func (d *Digest) RemoveAll(units []uint64) {
	for _, u := range units {
		d.sum -= mix(u)
	}
}

// Value is the digest, 0 for the empty set.
func (d *Digest) Value() uint64 { return d.sum }

// DigestOf is the digest of these units.
func DigestOf(units []uint64) uint64 {
	var d Digest
	d.AddAll(units)
	return d.sum
}

// mix is the finaliser of splitmix64, a bijection: sums of raw hashes would cancel when two sets differ by pairs with
// equal sums; the multiplications break that. Adding the golden ratio first keeps unit 0 from vanishing.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
