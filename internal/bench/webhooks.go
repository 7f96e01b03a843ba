package bench

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"

	"github.com/weirhq/weir/engine"
	"github.com/weirhq/weir/internal/cloudapi"
)

// webhooks compares receivers by the CPU that a status costs them, one status a
// POST: Weir's, up to and without the commit, and what most people write first.
// What the sender of the POSTs uses is taken off.
func (b *Bench) webhooks(ctx context.Context) error {
	if threadCPU() == 0 {
		return errors.New("CPU times of a thread cannot be had on this system")
	}
	posts, err := b.posts(ctx)
	if err != nil {
		return err
	}
	s := newSeries()
	var ours, plain []float64
	for range b.opts.Rounds {
		nowhere := &nowhere{}
		err := b.receiving(ctx, nowhere, func(_ context.Context, url string) error {
			rate, err := statusesPerCPU(url, posts)
			ours = append(ours, rate)
			s.add("weir", "statuses/CPU-s", rate)
			return err
		})
		if err == nil && nowhere.statuses != len(posts) {
			err = fmt.Errorf("%d of %d statuses were handed on", nowhere.statuses, len(posts))
		}
		if err != nil {
			return err
		}
		if err := serving(ctx, http.HandlerFunc(plainReceiver), func(_ context.Context, url string) error {
			rate, err := statusesPerCPU(url, posts)
			plain = append(plain, rate)
			s.add("net/http with encoding/json", "statuses/CPU-s", rate)
			return err
		}); err != nil {
			return err
		}
	}
	s.add("weir ÷ net/http with encoding/json", "×", median(ours)/median(plain))
	b.tell(Webhooks, s)
	return nil
}

// nowhere keeps no status.
type nowhere struct{ statuses int }

// ApplyStatuses counts them; a tracker has one committer.
func (n *nowhere) ApplyStatuses(_ context.Context, updates []engine.StatusUpdate, _ []engine.Event) (engine.Applied, error) {
	n.statuses += len(updates)
	return engine.Applied{Matched: len(updates)}, nil
}

// posts are whole requests, signed.
func (b *Bench) posts(ctx context.Context) ([][]byte, error) {
	key, err := b.InstanceKey(ctx)
	if err != nil {
		return nil, err
	}
	posts := make([][]byte, b.opts.Rows)
	for i := range posts {
		id := cloudapi.CallbackID{Recipient: int64(i + 1), Claim: 1}
		body := webhook([]arrival{{number: "1001", callback: id.Encode(key), id: messageID(int64(i))}}, "delivered")
		posts[i] = fmt.Appendf(nil, "POST / HTTP/1.1\r\nHost: weir\r\nContent-Type: application/json\r\nUser-Agent: facebookexternalua\r\n"+
			"X-Hub-Signature-256: %s\r\nContent-Length: %d\r\n\r\n%s", sign(body), len(body), body)
	}
	return posts, nil
}

const posters = 256 // connections: while one POST waits for its commit, others come

// statusesPerCPU sends the posts over many connections from one thread, whose
// CPU time is told apart from the receiver's.
func statusesPerCPU(url string, posts [][]byte) (float64, error) {
	conns := make([]net.Conn, posters)
	readers := make([]*bufio.Reader, posters)
	for i := range conns {
		c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			return 0, fmt.Errorf("dial: %w", err)
		}
		defer c.Close()
		conns[i], readers[i] = c, bufio.NewReader(c)
	}
	var rate float64
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		before, mine := ownCPU(), threadCPU()
		err := postAll(conns, readers, posts)
		receiver := ownCPU() - before - (threadCPU() - mine)
		rate = float64(len(posts)) / receiver.Seconds()
		failed <- err
	}()
	return rate, <-failed
}

func postAll(conns []net.Conn, readers []*bufio.Reader, posts [][]byte) error {
	for len(posts) > 0 {
		n := min(len(posts), len(conns))
		for i, post := range posts[:n] {
			if _, err := conns[i].Write(post); err != nil {
				return fmt.Errorf("post: %w", err)
			}
		}
		for _, r := range readers[:n] {
			if err := readOK(r); err != nil {
				return err
			}
		}
		posts = posts[n:]
	}
	return nil
}

func readOK(r *bufio.Reader) error {
	_, size, err := readHeadOf(r, "HTTP/1.1 200 ")
	if err != nil {
		return err
	}
	_, err = r.Discard(size)
	return err
}

// readHeadOf reads the head of an answer that begins like this.
func readHeadOf(r *bufio.Reader, begins string) (line string, size int, err error) {
	peeked, err := r.Peek(len(begins))
	if err != nil {
		return "", 0, fmt.Errorf("read the answer: %w", err)
	}
	if !bytes.Equal(peeked, []byte(begins)) {
		return "", 0, fmt.Errorf("answered %q", peeked)
	}
	return readHead(r)
}

// plainHook is a status webhook as encoding/json likes it.
type plainHook struct {
	Entry []struct {
		Changes []struct {
			Field string `json:"field"`
			Value struct {
				Metadata struct {
					PhoneNumberID string `json:"phone_number_id"`
				} `json:"metadata"`
				Statuses []struct {
					ID          string `json:"id"`
					Status      string `json:"status"`
					Timestamp   string `json:"timestamp"`
					RecipientID string `json:"recipient_id"`
					Callback    string `json:"biz_opaque_callback_data"`
					Errors      []struct {
						Code  int    `json:"code"`
						Title string `json:"title"`
					} `json:"errors"`
				} `json:"statuses"`
			} `json:"value"`
		} `json:"changes"`
	} `json:"entry"`
}

// plainReceiver reads, verifies and decodes a webhook, and forgets it.
func plainReceiver(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 4<<20))
	if err != nil || !hmac.Equal([]byte(sign(body)), []byte(r.Header.Get("X-Hub-Signature-256"))) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	var hook plainHook
	if err := json.Unmarshal(body, &hook); err != nil || len(hook.Entry) == 0 {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusOK)
}
