-- One person, over all campaigns. Everything is found by the phone, or by the
-- ids that it leads to.

-- name: PersonRows :many
-- A phone's rows in its newest 200 campaigns, in any of the ways in which it
-- may be written; what holds a row back is told by others.
SELECT p.id, p.phone, p.line, c.id AS campaign_id, c.name, c.category, c.state, coalesce(c.state_reason, '')::text AS state_reason, c.paused_until, c.stopped,
    c.on_unknown, c.max_attempts, c.absent_days, c.created_at, c.start_at, c.started_at, c.expire_at, coalesce(i.file, '')::text AS file,
    r.status::text AS status, r.claim, r.attempt, r.replays, coalesce(r.number_id, '')::text AS number_id, coalesce(r.message_id, '')::text AS message_id,
    coalesce(r.error_code, 0)::int AS error_code, coalesce(r.last_replay_id::text, '')::text AS last_replay_id,
    r.due_at, r.accepted_at, r.sent_at, r.delivered_at, r.read_at, r.failed_at, u.since AS unknown_since, z.opens_at, z.closes_at, coalesce(z.tz, '')::text AS tz,
    b.at AS claimed_at
FROM (SELECT q.id, q.phone, q.line FROM recipient_params q WHERE q.phone = ANY (@phones::text[]) ORDER BY q.campaign_id DESC LIMIT 200) p
JOIN recipients r ON r.id = p.id
JOIN campaigns c ON c.id = r.campaign_id
LEFT JOIN campaign_imports i ON i.campaign_id = c.id
LEFT JOIN campaign_zones z ON z.campaign_id = c.id AND z.zone = r.zone
LEFT JOIN unknowns u ON u.recipient_id = r.id AND u.claim = r.claim AND r.status = 'unknown'
LEFT JOIN (SELECT k.at, unnest(k.ids) AS id, unnest(k.fences) AS fence FROM claims k) b
    ON b.id = r.id AND b.fence = r.claim AND r.status = 'sending'
ORDER BY c.id DESC;

-- name: PersonMoment :one
SELECT now()::timestamptz AS now, (i.cluster = cluster_identity())::boolean AS vouched, (i.stopped_at IS NOT NULL)::boolean AS stopped FROM instance i;

-- name: PersonAttempts :many
SELECT a.recipient_id, a.claim, coalesce(a.number_id, '')::text AS number_id, a.at, coalesce(a.code, 0)::int AS code, coalesce(a.title, '')::text AS title,
    coalesce(a.message_id, '')::text AS message_id, a.failed
FROM attempts a WHERE a.recipient_id = ANY (@ids::bigint[]) ORDER BY a.recipient_id, a.claim;

-- name: PersonReplays :many
SELECT p.id::text AS id, p.campaign_id, p.who, p.at, p.forced FROM replays p WHERE p.id::text = ANY (@ids::text[]);

-- name: PersonSenders :many
-- The numbers of some campaigns, with whatever holds each back.
SELECT cn.campaign_id, n.id, n.waba_id, cn.role, n.enabled, coalesce(n.stop_reason, '')::text AS stop_reason, n.paused_until,
    (l.lease_id IS NOT NULL AND NOT l.released AND l.expires_at > now())::boolean AS owned, l.ready_at,
    coalesce(b.state, 'missing')::text AS breaker, b.open_until, coalesce(h.state, 'missing')::text AS host, h.open_until AS host_until,
    coalesce(CASE WHEN b.forced_until > now() THEN b.note END, '')::text AS forced, coalesce(CASE WHEN h.forced_until > now() THEN h.note END, '')::text AS host_forced,
    coalesce(CASE WHEN cn.role = 'primary' THEN 0 ELSE fallback_floor(cn.campaign_id) END, -1)::int AS floor, extract(epoch FROM c.fallback_wait)::double precision AS wait_seconds
FROM campaign_numbers cn JOIN campaigns c ON c.id = cn.campaign_id JOIN numbers n ON n.id = cn.number_id
LEFT JOIN number_leases l ON l.number_id = n.id
LEFT JOIN breakers b ON b.scope = 'number:' || n.id
LEFT JOIN breakers h ON h.scope = 'host'
WHERE cn.campaign_id = ANY (@campaigns::bigint[])
ORDER BY cn.campaign_id, cn.role DESC, n.id;

-- name: PersonSuppressions :many
SELECT DISTINCT s.scope, s.kind, coalesce(s.reason, '')::text AS reason, s.until, s.at, s.lifted_at, coalesce(s.lifted_by, '')::text AS lifted_by, (s.until > now())::boolean AS holds
FROM suppressions s WHERE s.phone = ANY (@phones::text[]) ORDER BY s.at, s.scope, s.kind;

-- name: PersonUnmatched :many
-- Statuses about the phone that found no recipient: tried again for 7 days.
SELECT e.at, e.retry_at, coalesce(e.number_id, '')::text AS number_id, e.body FROM webhook_events e
WHERE e.kind = 'unmatched' AND ltrim(e.body ->> 'phone', '+') = ANY (@digits::text[]) ORDER BY e.id LIMIT 100;
