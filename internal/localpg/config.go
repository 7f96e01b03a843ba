package localpg

import (
	"fmt"
	"strings"
)

// hba: the socket's directory admits one user, so the socket asks nothing;
// loopback is open to every user of the machine, so it asks for the password.
const hba = `local all all              trust
host  all all 127.0.0.1/32 scram-sha-256
`

// hbaReplication lets a test's standby follow.
const hbaReplication = "host  replication all 127.0.0.1/32 scram-sha-256\n"

func (c *cluster) hba() string {
	if c.Test {
		return hba + hbaReplication
	}
	return hba
}

// common suits a machine that also runs other things: memory stays modest,
// WAL generous, since imports and campaigns write in long bursts.
const common = `
listen_addresses = '127.0.0.1'
unix_socket_permissions = 0700
password_encryption = scram-sha-256
timezone = 'UTC'
log_timezone = 'UTC'
datestyle = 'iso, ymd'

# One node, no replicas: COPY into a new table may skip the WAL.
wal_level = minimal
max_wal_senders = 0
min_wal_size = 256MB
checkpoint_completion_target = 0.9
random_page_cost = 1.1
jit = off
maintenance_work_mem = 128MB
work_mem = 16MB

# Nothing below LOG, no statements, no DETAIL lines: those quote phone numbers.
log_min_messages = log
log_min_error_statement = panic
log_error_verbosity = terse
`

// durable is the operator's server. Rows live through five updates, so vacuum
// comes at 5 % dead rows, not at 20 %.
const durable = `
max_connections = 100
shared_buffers = 256MB
effective_cache_size = 1GB
max_wal_size = 4GB
checkpoint_timeout = 15min
wal_compression = on
autovacuum_naptime = 10s
autovacuum_vacuum_scale_factor = 0.05
autovacuum_vacuum_cost_limit = 2000
track_io_timing = on
`

// volatile is for tests: many small databases, none worth a disk's patience.
// Autovacuum would hold the template that is being cloned.
const volatile = `
max_connections = 300
shared_buffers = 128MB
max_wal_size = 1GB
fsync = off
full_page_writes = off
synchronous_commit = off
autovacuum = off
`

func (c *cluster) config() string {
	rest := durable
	if c.Test {
		rest = volatile
	}
	return fmt.Sprintf("# Written anew at every start.\nport = %d\nunix_socket_directories = %s\nhba_file = %s\ndata_directory = %s\n",
		c.state.Port, confQuote(c.sock), confQuote(c.path("pg_hba.conf")), confQuote(c.path("data"))) + common + rest + c.Config
}

func confQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
