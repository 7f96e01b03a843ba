package sim

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

// admin adds the simulator's own endpoints:
//
//	GET    /sim/ledger[?from=SEQ]    NDJSON of Entry, streamed
//	GET    /sim/summary[?rate=&burst=&slack=&callback_fields=]
//	GET    /sim/behavior             what is in force, with hits
//	POST   /sim/behavior             one Behavior; answers {"id": n}
//	DELETE /sim/behavior[?id=n]      ends one, or all
//	POST   /sim/templates            adds or replaces templates, in Graph's shape
//	POST   /sim/news                 one News: a webhook about a template, an account …
//	POST   /sim/inbound              one Inbound: a person writes; answers {"id", "answer"}
//	POST   /sim/reset
func (s *Sim) admin(mux *http.ServeMux) {
	mux.HandleFunc("GET /sim/ledger", s.serveLedger)
	mux.HandleFunc("GET /sim/summary", func(rw http.ResponseWriter, r *http.Request) {
		q, err := summaryQuery(r.URL.Query())
		if err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		reply(rw, s.Summary(q))
	})
	mux.HandleFunc("GET /sim/behavior", s.serveBehaviors)
	mux.HandleFunc("POST /sim/behavior", s.serveMisbehave)
	mux.HandleFunc("DELETE /sim/behavior", s.serveBehave)
	mux.HandleFunc("POST /sim/templates", s.serveAddTemplates)
	mux.HandleFunc("POST /sim/news", s.serveAnnounce)
	mux.HandleFunc("POST /sim/inbound", s.serveWrite)
	mux.HandleFunc("POST /sim/reset", func(rw http.ResponseWriter, _ *http.Request) {
		s.Reset()
		reply(rw, map[string]bool{"success": true})
	})
}

func badQuery(name, want string) error {
	return fmt.Errorf("query parameter %s must be %s", name, want)
}

func reply(rw http.ResponseWriter, v any) {
	rw.Header().Set("Content-Type", "application/json")
	// A reader that has gone away is no concern of the simulator's.
	_ = json.NewEncoder(rw).Encode(v)
}

// order reads what the simulator is told to do; a field that it does not know is
// a slip of the pen.
func order(rw http.ResponseWriter, r *http.Request, into any) error {
	dec := json.NewDecoder(http.MaxBytesReader(rw, r.Body, 1<<20))
	dec.DisallowUnknownFields()
	return dec.Decode(into)
}

func (s *Sim) serveLedger(rw http.ResponseWriter, r *http.Request) {
	from := uint64(1)
	if q := r.URL.Query().Get("from"); q != "" {
		var err error
		if from, err = strconv.ParseUint(q, 10, 63); err != nil {
			http.Error(rw, badQuery("from", "a sequence number").Error(), http.StatusBadRequest)
			return
		}
	}
	rw.Header().Set("Content-Type", "application/x-ndjson")
	out := bufio.NewWriterSize(rw, 64<<10)
	enc := json.NewEncoder(out)
	for e := range s.world.Load().entries(from) {
		if enc.Encode(e) != nil {
			return // the reader has gone away
		}
	}
	_ = out.Flush() // likewise
}

func (s *Sim) serveBehaviors(rw http.ResponseWriter, _ *http.Request) {
	type inForce struct {
		ID   int   `json:"id"`
		Hits int64 `json:"hits"`
		Behavior
	}
	list := []inForce{}
	for _, r := range s.world.Load().rules.all() {
		list = append(list, inForce{r.id, r.hits.Load(), r.Behavior})
	}
	reply(rw, list)
}

func (s *Sim) serveMisbehave(rw http.ResponseWriter, r *http.Request) {
	var b Behavior
	err := order(rw, r, &b)
	id := 0
	if err == nil {
		id, err = s.Misbehave(b)
	}
	if err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	reply(rw, map[string]int{"id": id})
}

func (s *Sim) serveBehave(rw http.ResponseWriter, r *http.Request) {
	id := 0
	if q := r.URL.Query().Get("id"); q != "" {
		var err error
		if id, err = strconv.Atoi(q); err != nil || id <= 0 {
			http.Error(rw, badQuery("id", "a behavior's id").Error(), http.StatusBadRequest)
			return
		}
	}
	n := s.Behave(id)
	if id != 0 && n == 0 {
		http.Error(rw, "no such behavior: GET /sim/behavior lists those in force", http.StatusNotFound)
		return
	}
	reply(rw, map[string]int{"ended": n})
}

// serveAddTemplates takes what ParseTemplates reads.
func (s *Sim) serveAddTemplates(rw http.ResponseWriter, r *http.Request) {
	list, err := ParseTemplates(http.MaxBytesReader(rw, r.Body, 16<<20))
	if err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	w := s.world.Load()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range list {
		w.addTemplate(t)
	}
	reply(rw, map[string]int{"templates": len(list)})
}
