package engine

// Wish is what a person asks for by a message to one of our numbers.
type Wish uint8

// The wishes. Of two of one person the later stands, by the platform's clock,
// in whatever order they come and however often; of two of the same second the
// one that asks for less.
const (
	WishNothing Wish = iota
	WishStop         // no more marketing
	WishStopAll      // no more messages at all
	WishStart        // marketing again: takes back their own WishStop and WishStopAll, and nobody else's word
)

var wishNames = [...]string{"", "stop", "stop_all", "start"}

// String is the wish's name as a metric label; "" asks for nothing.
func (w Wish) String() string { return wishNames[w] }
