-- Breakers: who may go on, and what became of it. Every move is one statement,
-- guarded by the row it moves; the trigger breaker_moved writes its event.

-- name: LockBreakers :exec
-- Goes before ReportBreakers in one transaction, so that each report is judged
-- with everything that the one before it added. In the order of scopes, so that
-- two nodes never deadlock.
SELECT scope FROM breakers WHERE scope = 'host' OR scope = ANY (@scopes::text[]) ORDER BY scope FOR NO KEY UPDATE;

-- name: ReportBreakers :many
-- Adds a node's report, judges the breakers it speaks of and says how they stand.
--   heard    the host's from every node; a number's from its owner alone, and
--            not while the host is not closed: then it says nothing of the number
--   seen     reports of the window, and only since the scope, and for a number
--            the host, came into its state: an outage is not judged twice
--   nodes    each node's sum and its latest streak; who has not reported lately
--            abstains, which is not the same as being well
--   verdict  a number is judged by what its owner says. The host needs more than
--            half of the nodes that have a say, so that a sick node, whatever
--            its share of the calls, cannot stop the fleet. Throttles never
--            count for the host: one hot number would stop all of them
WITH host AS MATERIALIZED (
    SELECT state = 'closed' AS closed, since FROM breakers WHERE scope = 'host'
), policy AS (
    SELECT @in_row::int AS in_row, @share::double precision AS share, @least::int AS least, @storm::int AS storm, @base_seconds::double precision AS base
), told AS (
    SELECT unnest(@scopes::text[]) AS scope, unnest(@leases::text[]) AS lease, unnest(@samples::int[]) AS samples,
        unnest(@failures::int[]) AS failures, unnest(@streaks::int[]) AS streak, unnest(@storms::int[]) AS storm,
        unnest(@times::text[])::int[] AS times
), heard AS MATERIALIZED (
    SELECT told.scope, told.samples, told.failures, told.streak, told.storm, told.times FROM told CROSS JOIN host
    WHERE told.scope = 'host' OR host.closed AND EXISTS (SELECT FROM number_leases l
        WHERE l.number_id = substr(told.scope, 8) AND l.lease_id::text = told.lease AND NOT l.released)
), old AS (
    DELETE FROM breaker_reports p USING heard WHERE p.scope = heard.scope AND p.at < now() - interval '1 min'
), kept AS (
    INSERT INTO breaker_reports (scope, node, seq, samples, failures, streak, times)
    SELECT scope, @node::text, @seq::bigint, samples, failures, streak, times FROM heard WHERE samples > 0
    ON CONFLICT DO NOTHING
), seen AS (
    SELECT scope, @node::text AS node, samples, failures, streak, now() AS at FROM heard WHERE samples > 0
    UNION ALL
    SELECT p.scope, p.node, p.samples, p.failures, p.streak, p.at
    FROM heard JOIN breakers b ON b.scope = heard.scope JOIN breaker_reports p ON p.scope = heard.scope CROSS JOIN host
    WHERE p.at > now() - make_interval(secs => @window_seconds::double precision)
      AND p.at > b.since AND (p.scope = 'host' OR p.at > host.since)
      AND NOT (p.node = @node::text AND p.seq = @seq::bigint)
), nodes AS (
    SELECT scope, node, sum(samples) AS samples, sum(failures) AS failures, (array_agg(streak ORDER BY at DESC))[1] AS streak
    FROM seen GROUP BY scope, node
    HAVING max(at) > now() - make_interval(secs => @abstain_seconds::double precision)
), votes AS (
    SELECT n.scope, sum(n.samples) AS samples, sum(n.failures) AS failures, count(*) AS reporters,
        2 * count(*) FILTER (WHERE n.streak >= p.in_row) > count(*) AS most_in_row,
        2 * count(*) FILTER (WHERE n.failures >= p.share * n.samples) > count(*) AS most_often,
        sum(n.samples) >= p.least AND sum(n.failures) >= p.share * sum(n.samples) AS often
    FROM nodes n CROSS JOIN policy p GROUP BY n.scope, p.least, p.share
), verdict AS (
    SELECT h.scope, coalesce(v.samples, 0) AS samples, coalesce(v.failures, 0) AS failures, coalesce(v.reporters, 0) AS reporters, CASE
        WHEN h.scope = 'host' AND v.most_in_row THEN 'consecutive'
        WHEN h.scope = 'host' AND v.most_often AND v.often THEN 'ratio'
        WHEN h.scope = 'host' THEN NULL
        WHEN h.streak >= p.in_row THEN 'consecutive'
        WHEN v.often THEN 'ratio'
        WHEN h.storm >= p.storm THEN 'throttled' END AS reason
    FROM heard h JOIN breakers b ON b.scope = h.scope LEFT JOIN votes v ON v.scope = h.scope CROSS JOIN policy p
    WHERE b.state = 'closed' AND coalesce(b.forced_until, '-infinity') <= now()
), moved AS (
    UPDATE breakers b SET state = 'open', reason = v.reason, cause = v.reason, note = '',
        samples = v.samples, failures = v.failures, reporters = v.reporters, open_seconds = p.base,
        open_until = now() + make_interval(secs => p.base * (1 + random() / 4))
    FROM verdict v CROSS JOIN policy p WHERE b.scope = v.scope AND v.reason IS NOT NULL
      AND b.state = 'closed' AND coalesce(b.forced_until, '-infinity') <= now()
      AND (b.scope = 'host' OR NOT EXISTS (SELECT FROM verdict h WHERE h.scope = 'host' AND h.reason IS NOT NULL))
    RETURNING b.scope, b.state, b.epoch, b.seq, b.since, b.open_until
)
SELECT b.scope, coalesce(m.state, b.state)::text AS state,
    (coalesce(m.epoch, b.epoch)::text || '.' || coalesce(m.seq, b.seq))::text AS mark,
    (CASE WHEN coalesce(m.seq, b.seq) > 0 THEN greatest(extract(epoch FROM clock_timestamp() - coalesce(m.since, b.since)), 0) ELSE 0 END)::double precision AS age_seconds,
    coalesce(extract(epoch FROM CASE WHEN b.state = 'half_open' THEN b.probe_until
        ELSE greatest(coalesce(m.open_until, b.open_until), b.forced_until) END - now()), 0)::double precision AS wait_seconds,
    (coalesce(b.forced_until, '-infinity') > now())::boolean AS forced,
    (CASE WHEN b.scope = 'host' THEN coalesce((SELECT extract(epoch FROM clock_timestamp() - max(p.at)) FROM breaker_reports p
        WHERE p.scope = 'host' AND p.node <> @node::text AND p.samples > p.failures AND p.at > now() - interval '5 s'), 0) ELSE 0 END)::double precision AS others_seconds
FROM breakers b LEFT JOIN moved m ON m.scope = b.scope
WHERE b.scope = 'host' OR b.scope = ANY (@scopes::text[]) ORDER BY b.scope;

-- name: ReadBreakers :many
-- How breakers stand, for a node that has nothing to report. others: since when
-- the latest report of another node said that calls go well, as ReportBreakers.
SELECT b.scope, b.state, (b.epoch::text || '.' || b.seq)::text AS mark,
    (CASE WHEN b.seq > 0 THEN greatest(extract(epoch FROM clock_timestamp() - b.since), 0) ELSE 0 END)::double precision AS age_seconds,
    coalesce(extract(epoch FROM CASE WHEN b.state = 'half_open' THEN b.probe_until
        ELSE greatest(b.open_until, b.forced_until) END - now()), 0)::double precision AS wait_seconds,
    (coalesce(b.forced_until, '-infinity') > now())::boolean AS forced,
    (CASE WHEN b.scope = 'host' THEN coalesce((SELECT extract(epoch FROM clock_timestamp() - max(p.at)) FROM breaker_reports p
        WHERE p.scope = 'host' AND p.node <> @node::text AND p.samples > p.failures AND p.at > now() - interval '5 s'), 0) ELSE 0 END)::double precision AS others_seconds
FROM breakers b WHERE b.scope = 'host' OR b.scope = ANY (@scopes::text[]) ORDER BY b.scope;

-- name: TakePermit :many
-- The one probe of the fleet: of any number of takers one gets a token. A scope
-- gives a permit once its timeout is over, or once the last permit is: its
-- prober is dead, and nothing of its call can be under way any more.
--   lane    the taker's own fence: it must be able to claim
--   work    something to send: else the breaker would move for nothing, again
--           and again. One index probe a campaign and zone, as in the claim; for
--           a fallback number that waits for others' failures at most a thousand
-- The host goes first: while it is not closed no number probes. What is forced
-- open sends nothing, not even the host's probe.
WITH lane AS MATERIALIZED (
    SELECT l.number_id FROM number_leases l JOIN numbers n ON n.id = l.number_id
    WHERE l.number_id = @number::text AND l.lease_id = @lease::uuid AND NOT l.released AND l.ready_at <= now() AND l.expires_at > now()
      AND n.enabled AND coalesce(n.paused_until, '-infinity') <= now()
    FOR KEY SHARE OF l
), source AS MATERIALIZED (
    SELECT c.id, z.zone, CASE WHEN cn.role = 'primary' THEN 0 ELSE fallback_floor(c.id) END AS floor
    FROM lane JOIN campaign_numbers cn ON cn.number_id = lane.number_id
    JOIN campaigns c ON c.id = cn.campaign_id AND c.state = 'running' AND c.start_at <= now() AND coalesce(c.expire_at, 'infinity') > now() AND coalesce(c.paused_until, '-infinity') <= now()
    JOIN campaign_zones z ON z.campaign_id = c.id AND z.opens_at <= now() AND z.closes_at > now()
), work AS MATERIALIZED (
    SELECT (SELECT h.id FROM (SELECT r.id, r.attempt FROM recipients r WHERE r.campaign_id = s.id AND r.zone = s.zone AND r.due_at <= now()
            ORDER BY r.due_at DESC, r.id LIMIT 1000) h WHERE h.attempt >= s.floor LIMIT 1) AS id
    FROM source s WHERE s.floor IS NOT NULL
)
UPDATE breakers b SET state = 'half_open', reason = CASE b.state WHEN 'open' THEN 'probe' ELSE 'probe_expired' END, note = '',
    samples = 0, failures = 0, reporters = 0, probe_token = gen_random_uuid(),
    probe_until = now() + make_interval(secs => @permit_seconds::double precision)
FROM lane
WHERE b.scope = @scope::text AND b.scope IN ('host', 'number:' || lane.number_id)
  AND coalesce(b.forced_until, '-infinity') <= now()
  AND (b.state = 'open' AND coalesce(b.open_until, '-infinity') <= now()
       OR b.state = 'half_open' AND coalesce(b.probe_until, '-infinity') <= now())
  AND NOT EXISTS (SELECT FROM breakers o WHERE o.scope IN ('host', 'number:' || lane.number_id) AND o.scope <> b.scope
      AND (o.scope = 'host' AND o.state <> 'closed' OR o.state = 'open' AND o.forced_until > now()))
  AND EXISTS (SELECT FROM work WHERE work.id IS NOT NULL)
RETURNING b.probe_token::text AS token;

-- name: SettleProbe :execrows
-- What a probe came to. A permit that is over decides nothing: another may be
-- out. Throttled is an answer like any other, except to a breaker that throttles
-- have tripped.
WITH probe AS (
    SELECT b.scope, @outcome::text = 'answered' OR @outcome::text = 'throttled' AND b.cause <> 'throttled' AS up,
        CASE WHEN @outcome::text = 'unused' THEN greatest(b.open_seconds, @base_seconds::double precision)
             ELSE least(2 * greatest(b.open_seconds, @base_seconds::double precision), @cap_seconds::double precision) END AS again
    FROM breakers b WHERE b.scope = @scope::text AND b.probe_token::text = @token::text
)
UPDATE breakers b SET state = CASE WHEN probe.up THEN 'closed' ELSE 'open' END, reason = 'probe_' || @outcome::text, note = '',
    samples = (@outcome::text <> 'unused')::int, failures = (@outcome::text = 'failed')::int, reporters = 1,
    open_seconds = CASE WHEN probe.up THEN 0 ELSE probe.again END,
    open_until = CASE WHEN probe.up THEN NULL ELSE now() + make_interval(secs => probe.again * (1 + random() / 4)) END,
    probe_token = NULL, probe_until = NULL
FROM probe
WHERE b.scope = probe.scope AND b.state = 'half_open' AND b.probe_token::text = @token::text AND b.probe_until > now();

-- name: ForceBreaker :execrows
-- An operator's word, or another system's, for a time. Whatever probe is out
-- decides nothing any more. When a force open is over, the next permit makes it
-- half-open: nobody has asked the platform yet.
WITH forced AS (
    UPDATE breakers SET state = @state::text, reason = 'forced', note = @note::text,
        cause = CASE WHEN @state::text = 'open' THEN 'forced' ELSE cause END, samples = 0, failures = 0, reporters = 0,
        forced_until = now() + make_interval(secs => @for_seconds::double precision),
        open_until = CASE WHEN @state::text = 'open' THEN now() + make_interval(secs => @for_seconds::double precision) END,
        open_seconds = 0, probe_token = NULL, probe_until = NULL
    WHERE scope = @scope::text
    RETURNING scope
)
INSERT INTO audit (who, what, subject, body)
SELECT @who::text, 'breaker_forced', scope, jsonb_build_object('state', @state::text, 'seconds', @for_seconds::double precision, 'note', @note::text)
FROM forced;

-- name: ListBreakers :many
-- For people: openings and the mean time from opening to closing are of the last
-- 24 hours, calls of the last minute.
SELECT b.scope, b.state, b.since, b.reason, b.note, b.cause, b.epoch::text AS epoch, b.seq,
    greatest(extract(epoch FROM b.forced_until - now()), 0)::double precision AS forced_seconds,
    (SELECT count(*) FROM breaker_events e WHERE e.scope = b.scope AND e.prev = 'closed' AND e.state = 'open'
        AND e.at > now() - interval '24 h')::bigint AS openings,
    coalesce((SELECT avg(extract(epoch FROM coalesce((SELECT min(c.at) FROM breaker_events c
            WHERE c.scope = e.scope AND c.state = 'closed' AND c.at > e.at), now()) - e.at))
        FROM breaker_events e WHERE e.scope = b.scope AND e.prev = 'closed' AND e.state = 'open'
        AND e.at > now() - interval '24 h'), 0)::double precision AS mean_open_seconds,
    coalesce(p.samples, 0)::bigint AS samples, coalesce(p.failures, 0)::bigint AS failures
FROM breakers b LEFT JOIN (
    SELECT scope, sum(samples) AS samples, sum(failures) AS failures FROM breaker_reports
    WHERE at > now() - interval '1 min' GROUP BY scope
) p ON p.scope = b.scope
ORDER BY b.scope;

-- name: BreakerTimes :many
-- Calls of the last minute, by scope and class of duration, from 1.
SELECT t.scope, t.class::int AS class, sum(t.n)::bigint AS n FROM (
    SELECT scope, generate_subscripts(times, 1) AS class, unnest(times) AS n FROM breaker_reports WHERE at > now() - interval '1 min'
) t GROUP BY t.scope, t.class ORDER BY t.scope, t.class;

-- name: BreakerMoves :many
-- For metrics.
SELECT scope, state, to_closed, to_half_open, to_open,
    (CASE WHEN state = 'closed' THEN false ELSE work_waits(scope) END)::boolean AS waits
FROM breakers ORDER BY scope;

-- name: ForgetBreakerEvents :execrows
DELETE FROM breaker_events WHERE at < now() - interval '90 days';

-- name: BreakerEventsAfter :many
-- A page of what a breaker did in one epoch, and how far the row has come: one
-- statement, so that the two agree. A row without an event stands for none.
-- elsewhere: the row's epoch was made on another cluster, and its next move
-- begins a new one.
SELECT b.epoch::text AS epoch, b.seq, (b.cluster <> cluster_identity())::boolean AS elsewhere,
    coalesce(e.epoch::text, '')::text AS event_epoch, coalesce(e.seq, 0)::bigint AS event_seq, coalesce(e.at, '-infinity')::timestamptz AS at,
    coalesce(e.prev, '')::text AS prev, coalesce(e.state, '')::text AS state, coalesce(e.reason, '')::text AS reason, coalesce(e.note, '')::text AS note,
    coalesce(e.samples, 0)::bigint AS samples, coalesce(e.failures, 0)::bigint AS failures, coalesce(e.reporters, 0)::int AS reporters
FROM breakers b LEFT JOIN LATERAL (
    SELECT v.* FROM breaker_events v WHERE v.scope = b.scope AND v.epoch = coalesce(nullif(@epoch::text, '')::uuid, b.epoch) AND v.seq > @seq::bigint
    ORDER BY v.seq LIMIT @most::int) e ON true
WHERE b.scope = @scope::text ORDER BY e.seq;
