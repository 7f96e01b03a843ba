-- What somebody should be told: its place in the log, and how far each endpoint
-- has come in it. Statements elsewhere write notices where they make them so.

-- name: LockNotices :exec
-- One gatherer at a time, and in a statement of its own, so that what follows
-- has a snapshot from under the lock.
SELECT seq FROM notice_log FOR NO KEY UPDATE;

-- name: TellMoves :exec
-- A notice of every move of a breaker, in the order of its numbers, whatever the
-- clocks of two servers said.
WITH fresh AS (
    UPDATE breaker_events e SET told = true WHERE NOT e.told
    RETURNING e.scope, e.epoch, e.seq, e.at, e.prev, e.state, e.reason, e.note, e.samples, e.failures, e.reporters
)
INSERT INTO notices (kind, subject, at, body)
SELECT 'breaker.' || state, scope, at, jsonb_build_object('breaker', jsonb_build_object('scope', scope, 'epoch', epoch, 'seq', seq,
    'prev', prev, 'state', state, 'reason', reason, 'note', note, 'samples', samples, 'failures', failures, 'reporters', reporters))
FROM fresh ORDER BY min(at) OVER (PARTITION BY scope, epoch), scope, epoch, seq;

-- name: TellLongOpen :exec
-- Once an opening: a breaker that has not been closed for this long since, while
-- somebody waits behind it. The opening is named by the move that made it. One
-- that is open long past its timeout had nothing to probe with until now: whoever
-- comes is probed with first, and told of only if that fails.
INSERT INTO notices (kind, subject, body)
SELECT 'breaker.stays_open', b.scope, jsonb_build_object('seconds', round(extract(epoch FROM now() - o.at)),
    'breaker', jsonb_build_object('scope', b.scope, 'epoch', o.epoch, 'seq', o.seq, 'state', b.state, 'reason', o.reason,
        'samples', o.samples, 'failures', o.failures, 'reporters', o.reporters))
FROM breakers b CROSS JOIN LATERAL (
    SELECT e.* FROM breaker_events e WHERE e.scope = b.scope AND e.prev = 'closed' AND e.state <> 'closed'
    ORDER BY e.at DESC, e.seq DESC LIMIT 1) o
WHERE b.state = 'open' AND b.open_until > now() - interval '10 s' AND work_waits(b.scope)
  AND o.at <= now() - make_interval(secs => @after_seconds::double precision)
  AND NOT EXISTS (SELECT FROM notices n WHERE n.subject = b.scope AND n.kind = 'breaker.stays_open'
      AND n.body #>> '{breaker,epoch}' = o.epoch::text AND n.body #>> '{breaker,seq}' = o.seq::text);

-- name: TellUnconfirmed :exec
-- Once a database that no operator vouches for.
INSERT INTO notices (kind, subject, body)
SELECT 'database.unconfirmed', 'database', jsonb_build_object('cluster', cluster_identity(), 'vouched', i.cluster)
FROM instance i
WHERE i.cluster <> cluster_identity() AND NOT EXISTS (SELECT FROM notices n WHERE n.subject = 'database' AND n.kind = 'database.unconfirmed'
    AND n.body ->> 'cluster' = cluster_identity() AND n.body ->> 'vouched' = i.cluster AND n.at > i.confirmed_at);

-- name: NumberNotices :many
-- Numbers what is committed, without gaps. Under the lock: what is not seen now
-- comes later, and gets a later number.
WITH fresh AS (
    SELECT n.id, row_number() OVER (ORDER BY n.id) AS place FROM notices n WHERE n.seq IS NULL
), numbered AS (
    UPDATE notices n SET seq = log.seq + fresh.place FROM fresh, notice_log log WHERE n.id = fresh.id RETURNING n.seq
), log AS (
    UPDATE notice_log SET seq = seq + (SELECT count(*) FROM numbered) WHERE EXISTS (SELECT FROM numbered)
)
SELECT count(*) FROM numbered;

-- name: SeeEndpoints :exec
-- A new one begins with what comes next.
INSERT INTO notice_endpoints AS e (endpoint, name, seq)
SELECT x.endpoint, x.name, log.seq
FROM notice_log log CROSS JOIN (SELECT unnest(@endpoints::text[]) AS endpoint, unnest(@names::text[]) AS name) x ORDER BY x.endpoint
ON CONFLICT (endpoint) DO UPDATE SET seen_at = now() WHERE e.seen_at < now() - interval '1 minute';

-- name: DueEndpoints :many
-- Those that have something to be told, that nobody delivers to and that some
-- node knows. The claim names the last delivery, so that one that died in the
-- middle is told from the next.
SELECT e.endpoint, e.claim::text AS claim FROM notice_endpoints e
WHERE e.claimed_until <= now() AND e.retry_at <= now() AND e.seen_at > now() - interval '1 hour'
  AND EXISTS (SELECT FROM notices n WHERE n.seq > e.seq)
ORDER BY e.endpoint;

-- name: ClaimEndpoint :many
UPDATE notice_endpoints SET claim = gen_random_uuid(), claimed_until = now() + make_interval(secs => @hold_seconds::double precision)
WHERE endpoint = @endpoint::text AND claimed_until <= now() AND retry_at <= now()
RETURNING claim::text AS claim, seq, failures;

-- name: NoticesAfter :many
SELECT n.seq::bigint AS seq, n.key::text AS key, n.kind, n.subject, n.body, n.at, (SELECT log.origin::text FROM notice_log log)::text AS origin
FROM notices n WHERE n.seq > @seq::bigint ORDER BY n.seq LIMIT 20;

-- name: AdvanceEndpoint :execrows
-- Forward only, and only by whoever holds the claim; another may have taken it
-- over from one that was too slow.
UPDATE notice_endpoints SET seq = @seq::bigint, claimed_until = now() + make_interval(secs => @hold_seconds::double precision),
    failures = 0, trouble = NULL, retry_at = '-infinity'
WHERE endpoint = @endpoint::text AND claim = @claim::uuid AND seq < @seq::bigint;

-- name: FailEndpoint :exec
UPDATE notice_endpoints SET failures = failures + 1, trouble = @trouble::text, claimed_until = '-infinity',
    retry_at = now() + make_interval(secs => @delay_seconds::double precision)
WHERE endpoint = @endpoint::text AND claim = @claim::uuid;

-- name: LeaveEndpoint :exec
UPDATE notice_endpoints SET claimed_until = '-infinity' WHERE endpoint = @endpoint::text AND claim = @claim::uuid;

-- name: DropNotices :exec
-- What is too old, or too far back, whoever has not been told of it: the numbers
-- that are missing say so.
WITH old AS (
    DELETE FROM notices n WHERE n.seq IS NOT NULL AND (n.at < now() - make_interval(days => @days::int)
        OR n.seq <= (SELECT log.seq FROM notice_log log) - @most::bigint)
)
DELETE FROM notice_endpoints WHERE seen_at < now() - make_interval(days => @days::int);

-- name: NoticeLag :many
-- How long the oldest notice that an endpoint has not taken has been waiting.
SELECT e.name, max(coalesce(extract(epoch FROM now() - n.at), 0))::double precision AS seconds
FROM notice_endpoints e LEFT JOIN LATERAL (SELECT o.at FROM notices o WHERE o.seq > e.seq ORDER BY o.seq LIMIT 1) n ON true
WHERE e.seen_at > now() - interval '1 hour'
GROUP BY e.name ORDER BY e.name;
