package bench

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// sink is the least that can be called a Cloud API: it takes every message at
// once, or after a time, and checks nothing. What it costs is taken from the
// same machine that is measured, so it is no net/http server.
type sink struct {
	listener net.Listener
	latency  time.Duration
	accepted func(arrival) // may be nil; called before the answer goes out
	ids      atomic.Int64
	open     sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// arrival is one message as it came in.
type arrival struct {
	number, callback, id string
	at                   time.Time
}

func openSink(latency time.Duration, accepted func(arrival)) (*sink, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	s := &sink{listener: l, latency: latency, accepted: accepted, conns: map[net.Conn]struct{}{}}
	s.open.Go(s.accept)
	return s, nil
}

func (s *sink) url() string { return "http://" + s.listener.Addr().String() }

func (s *sink) close() {
	_ = s.listener.Close()
	s.mu.Lock()
	for c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.open.Wait()
}

func (s *sink) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns[c] = struct{}{}
		s.mu.Unlock()
		s.open.Go(func() {
			s.serve(c)
			_ = c.Close()
			s.mu.Lock()
			delete(s.conns, c)
			s.mu.Unlock()
		})
	}
}

// serve answers a connection's requests until it ends.
func (s *sink) serve(c net.Conn) {
	in, body := bufio.NewReader(c), []byte(nil)
	for {
		number, size, err := readHead(in)
		if err != nil {
			return
		}
		body = append(body[:0], make([]byte, size)...)
		if _, err := io.ReadFull(in, body); err != nil {
			return
		}
		id := "wamid.bench" + strconv.FormatInt(s.ids.Add(1), 10)
		if s.accepted != nil && number != "" {
			s.accepted(arrival{number: number, callback: callback(body), id: id, at: time.Now()})
		}
		if s.latency > 0 {
			time.Sleep(s.latency)
		}
		if _, err := io.WriteString(c, answer(id)); err != nil {
			return
		}
	}
}

// readHead reads a request down to its body: whose number it is a message for,
// "" when it is none, and how long the body is.
func readHead(in *bufio.Reader) (number string, size int, err error) {
	head := textproto.NewReader(in)
	line, err := head.ReadLine() // POST /v25.0/NUMBER/messages HTTP/1.1
	if err != nil {
		return "", 0, err
	}
	if parts := strings.Split(line, "/"); len(parts) > 3 && strings.HasPrefix(line, "POST ") {
		number = parts[2]
	}
	for {
		line, err := head.ReadLineBytes()
		if err != nil || len(line) == 0 {
			return number, size, err
		}
		if name, value, ok := bytes.Cut(line, []byte(": ")); ok && bytes.EqualFold(name, []byte("Content-Length")) {
			if size, err = strconv.Atoi(string(value)); err != nil || size < 0 || size > 1<<20 {
				return "", 0, errors.New("no length")
			}
		}
	}
}

func answer(id string) string {
	body := `{"messaging_product":"whatsapp","messages":[{"id":"` + id + `","message_status":"accepted"}]}`
	return "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
}

// callback is our own id, which comes back with each status.
func callback(body []byte) string {
	_, rest, ok := bytes.Cut(body, []byte(`"biz_opaque_callback_data":"`))
	if !ok {
		return ""
	}
	id, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(id)
}
