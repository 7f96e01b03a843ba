package sim

// timed is anything that is due at some time.
type timed interface{ due() int64 }

// queue is a binary heap of values, earliest first: container/heap would box
// each of millions of events.
type queue[T timed] struct{ items []T }

// next is when the first item is due; ok is false for an empty queue.
func (q *queue[T]) next() (at int64, ok bool) {
	if len(q.items) == 0 {
		return 0, false
	}
	return q.items[0].due(), true
}

func (q *queue[T]) push(v T) {
	q.items = append(q.items, v)
	i := len(q.items) - 1
	for i > 0 {
		up := (i - 1) / 2
		if q.items[up].due() <= q.items[i].due() {
			return
		}
		q.items[up], q.items[i] = q.items[i], q.items[up]
		i = up
	}
}

func (q *queue[T]) pop() T {
	top := q.items[0]
	last := len(q.items) - 1
	q.items[0] = q.items[last]
	var zero T
	q.items[last] = zero
	q.items = q.items[:last]
	for i := 0; ; {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < last; c++ {
			if q.items[c].due() < q.items[least].due() {
				least = c
			}
		}
		if least == i {
			return top
		}
		q.items[i], q.items[least] = q.items[least], q.items[i]
		i = least
	}
}
