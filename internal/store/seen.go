package store

import (
	"hash/maphash"
	"math/bits"
)

// seen remembers phone numbers in a fixed 8 MiB: a Bloom filter whose bits for
// one phone lie in one 64-byte block, so that a question costs one cache miss.
// It may say "maybe" of a new phone (0.07 % of 5 million, 1 % of 10 million)
// and never "new" of one it has seen. What is right does not depend on it: the
// unique index has the last word on every "maybe".
type seen struct {
	seed   maphash.Seed
	blocks [][8]uint64
}

const (
	seenBlocks = 1 << 17 // of 64 bytes
	seenProbes = 5       // bits a phone; with the 17 bits of its block they use 62 of the 64 of its hash
)

func newSeen() *seen {
	return &seen{seed: maphash.MakeSeed(), blocks: make([][8]uint64, seenBlocks)}
}

// add remembers phone and reports whether it may have been there already.
func (s *seen) add(phone string) (maybe bool) {
	h := maphash.String(s.seed, phone)
	block := &s.blocks[h%seenBlocks]
	h >>= bits.TrailingZeros64(seenBlocks)
	maybe = true
	for range seenProbes {
		word, bit := h>>6&7, uint64(1)<<(h&63)
		maybe = maybe && block[word]&bit != 0
		block[word] |= bit
		h >>= 9
	}
	return maybe
}
