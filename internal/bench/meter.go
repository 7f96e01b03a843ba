package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// reading is what has been used up so far.
type reading struct {
	at     time.Time
	own    time.Duration         // CPU of this process
	server map[int]time.Duration // CPU of each process of the server; empty when it is on another machine
	wal    int64                 // bytes that the server has written ahead
}

// spent is the difference of two readings.
type spent struct {
	took, own, server time.Duration // server 0 = cannot be seen from here
	wal               int64
}

func read(ctx context.Context, pool *pgxpool.Pool) (reading, error) {
	r := reading{at: time.Now(), own: ownCPU(), server: map[int]time.Duration{}}
	rows, err := pool.Query(ctx, `SELECT pid, (pg_current_wal_insert_lsn() - '0/0')::bigint FROM pg_stat_activity`)
	if err != nil {
		return r, fmt.Errorf("read the server's processes: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var pid int
		if err := rows.Scan(&pid, &r.wal); err != nil {
			return r, fmt.Errorf("read the server's processes: %w", err)
		}
		if used, ok := processCPU(pid); ok {
			r.server[pid] = used
		}
	}
	return r, rows.Err()
}

// since leaves out what the server's processes that have ended in between had
// used: autovacuum's, mostly. A pool that keeps its connections ends none.
func (r reading) since(before reading) spent {
	s := spent{took: r.at.Sub(before.at), own: r.own - before.own, wal: r.wal - before.wal}
	for pid, used := range r.server {
		s.server += used - before.server[pid]
	}
	return s
}

// tick is the unit of Linux's CPU times as it shows them to programs.
const tick = 10 * time.Millisecond

// processCPU reads what a process of this machine has used, if it is a
// Postgres: the process ids of a server elsewhere mean nothing here.
func processCPU(pid int) (time.Duration, bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil || !bytes.Contains(stat, []byte("(postgres)")) {
		return 0, false
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0, false
	}
	user, err := strconv.ParseInt(string(fields[11]), 10, 64)
	if err != nil {
		return 0, false
	}
	system, err := strconv.ParseInt(string(fields[12]), 10, 64)
	return time.Duration(user+system) * tick, err == nil
}
