-- What an operator reads. Everything of a campaign is read by its id ranges.

-- name: ExportPage :many
-- The recipients of a few thousand ids, in order, which is the file's order.
-- Every table is bound to the ids by itself: a merge join would otherwise read
-- it from its beginning for every page. An error is shown while it is what the
-- row came to, not beside a later success; the last error of an expired
-- or canceled row stands beside why it was not tried again. statuses: those, or all
-- when there are none.
SELECT r.id, p.line, p.phone, p.params, r.status::text AS status, r.attempt, coalesce(r.number_id, '')::text AS number_id, coalesce(r.message_id, '')::text AS message_id,
    (CASE WHEN r.status IN ('accepted', 'held', 'sent', 'delivered', 'read') THEN 0 ELSE coalesce(r.error_code, 0) END)::int AS error_code,
    concat_ws('; ', CASE r.status WHEN 'expired' THEN 'the campaign expired' WHEN 'canceled' THEN 'the campaign was canceled' END, why.title)::text AS error_title,
    r.accepted_at, r.sent_at, r.delivered_at, r.read_at, r.failed_at, coalesce(cardinality(array_remove(twin.ids, r.message_id)), 0)::int AS duplicates
FROM recipients r JOIN recipient_params p ON p.id = r.id AND p.id BETWEEN @lo::bigint AND @hi::bigint
LEFT JOIN (
    SELECT DISTINCT ON (a.recipient_id, a.code) a.recipient_id, a.code, a.title FROM attempts a
    WHERE a.recipient_id BETWEEN @lo::bigint AND @hi::bigint AND a.title IS NOT NULL
    ORDER BY a.recipient_id, a.code, a.claim DESC
) why ON why.recipient_id = r.id AND why.code IS NOT DISTINCT FROM r.error_code
    AND r.status NOT IN ('accepted', 'held', 'sent', 'delivered', 'read')
LEFT JOIN (
    SELECT a.recipient_id, array_agg(a.message_id) AS ids FROM attempts a
    WHERE a.recipient_id BETWEEN @lo::bigint AND @hi::bigint AND a.message_id IS NOT NULL AND NOT a.failed GROUP BY a.recipient_id
) twin ON twin.recipient_id = r.id
WHERE r.id BETWEEN @lo::bigint AND @hi::bigint AND r.campaign_id = @campaign::bigint
  AND (cardinality(@statuses::text[]) = 0 OR r.status::text = ANY (@statuses::text[]))
ORDER BY r.id;

-- name: CountDuplicates :one
-- Messages that live beside the one their row shows. A small index holds only
-- those, so it is cheap.
SELECT count(*) FROM campaign_ranges g JOIN attempts a ON a.recipient_id BETWEEN g.lo AND g.hi AND a.message_id IS NOT NULL AND NOT a.failed
JOIN recipients r ON r.id = a.recipient_id AND r.campaign_id = g.campaign_id
WHERE g.campaign_id = @campaign::bigint AND r.message_id <> a.message_id;

-- name: ErrorsByCode :many
-- From attempts alone, so the cost grows with the errors and not with the
-- audience; ids are the campaign's own, so its rows are not asked, and nothing is
-- sorted, which made a million errors seven times as dear. What has no code is
-- told apart by its words, and its row is asked: who was left out is no error, and
-- SuppressedByReason counts those. With a code any of its words will do.
SELECT coalesce(a.code, 0)::int AS code, coalesce(max(a.title COLLATE "C"), '')::text AS title, count(*) AS attempts
FROM campaign_ranges g JOIN attempts a ON a.recipient_id BETWEEN g.lo AND g.hi
WHERE g.campaign_id = @campaign::bigint AND CASE WHEN a.code IS NOT NULL THEN true WHEN a.title IS NULL THEN false
    ELSE NOT coalesce((SELECT r.status = 'suppressed' AND r.claim = a.claim FROM recipients r WHERE r.id = a.recipient_id), false) END
GROUP BY a.code, CASE WHEN a.code IS NULL THEN a.title END
ORDER BY count(*) DESC, a.code;

-- name: SuppressedByReason :many
-- Why nothing was sent to whom a claim settled; the cost grows with attempts.
SELECT a.title::text AS reason, count(*) AS n
FROM campaign_ranges g JOIN attempts a ON a.recipient_id BETWEEN g.lo AND g.hi AND a.code IS NULL AND a.title IS NOT NULL
JOIN recipients r ON r.id = a.recipient_id AND r.campaign_id = g.campaign_id AND r.claim = a.claim AND r.status = 'suppressed'
WHERE g.campaign_id = @campaign::bigint GROUP BY a.title;

-- name: CampaignPace :many
SELECT n.id AS number_id, coalesce(n.display, '')::text AS display, cn.role, n.mps_limit, n.headroom, n.burst, n.enabled,
    coalesce(n.stop_reason, '')::text AS stop_reason, greatest(extract(epoch FROM n.paused_until - now()), 0)::double precision AS paused_seconds,
    (l.lease_id IS NOT NULL AND NOT l.released AND l.expires_at > now())::boolean AS owned, coalesce(t.accepted, 0)::bigint AS accepted,
    coalesce(extract(epoch FROM now() - a.since), -1)::double precision AS away_seconds, coalesce(a.why, '')::text AS why,
    (cn.role = 'fallback' AND fallback_floor(cn.campaign_id) IS NOT DISTINCT FROM 0)::boolean AS stands_in
FROM campaign_numbers cn JOIN numbers n ON n.id = cn.number_id JOIN number_absences a ON a.number_id = n.id
LEFT JOIN number_leases l ON l.number_id = n.id LEFT JOIN number_traffic t ON t.number_id = n.id
WHERE cn.campaign_id = @campaign::bigint
ORDER BY cn.role DESC, n.id;

-- name: VerifyRows :many
-- One look at every row, by status. Each count but n is of rows that break a
-- promise, except orphaned: those wait for their number's next owner.
WITH booked AS MATERIALIZED (
    SELECT x.id, x.fence, bool_or(l.lease_id IS NOT NULL AND NOT l.released AND l.expires_at > now()) AS owned
    FROM (SELECT unnest(c.ids) AS id, unnest(c.fences) AS fence, c.number_id, c.lease_id FROM claims c) x
    LEFT JOIN number_leases l ON l.number_id = x.number_id AND l.lease_id = x.lease_id
    GROUP BY x.id, x.fence
)
SELECT r.status::text AS status, count(*) AS n,
    count(*) FILTER (WHERE (r.status = 'pending') <> (r.due_at IS NOT NULL)) AS wrong_due,
    count(*) FILTER (WHERE p.id IS NULL) AS no_params,
    count(*) FILTER (WHERE (r.status IN ('accepted', 'held', 'sent', 'delivered', 'read') AND r.message_id IS NULL)
        OR (r.status < 'accepted' AND r.message_id IS NOT NULL)) AS wrong_message,
    count(*) FILTER (WHERE (r.read_at IS NOT NULL AND r.status < 'read') OR (r.delivered_at IS NOT NULL AND r.status < 'delivered')) AS wrong_times,
    count(*) FILTER (WHERE r.attempt < 0 OR r.attempt > c.max_attempts) AS wrong_attempts,
    count(*) FILTER (WHERE r.status = 'sending' AND b.id IS NULL) AS stuck,
    count(*) FILTER (WHERE r.status = 'sending' AND NOT b.owned) AS orphaned,
    count(*) FILTER (WHERE r.status = 'unknown' AND (u.recipient_id IS NULL OR u.claim <> r.claim)) AS unlisted,
    count(*) FILTER (WHERE r.status = 'suppressed' AND NOT EXISTS (
        SELECT FROM attempts a WHERE a.recipient_id = r.id AND a.claim = r.claim AND a.title IS NOT NULL)) AS unreasoned
FROM campaigns c JOIN campaign_ranges g ON g.campaign_id = c.id
JOIN recipients r ON r.id BETWEEN g.lo AND g.hi AND r.campaign_id = c.id
LEFT JOIN recipient_params p ON p.id = r.id AND p.campaign_id = r.campaign_id
LEFT JOIN booked b ON b.id = r.id AND b.fence = r.claim
LEFT JOIN unknowns u ON u.recipient_id = r.id
WHERE c.id = @campaign::bigint
GROUP BY r.status ORDER BY r.status;

-- name: VerifyTotals :one
-- waiting comes from the due index, which knows a campaign's rows wherever they
-- lie. doubled: a row with two living messages, that no replay explains.
SELECT
    (SELECT count(*) FROM campaign_ranges g JOIN recipient_params p ON p.id BETWEEN g.lo AND g.hi AND p.campaign_id = g.campaign_id
        WHERE g.campaign_id = @campaign::bigint)::bigint AS params,
    (SELECT count(*) FROM campaign_ranges g JOIN campaign_ranges o ON o.lo <= g.hi AND o.hi >= g.lo AND (o.campaign_id, o.lo) <> (g.campaign_id, g.lo)
        WHERE g.campaign_id = @campaign::bigint)::bigint AS overlaps,
    (SELECT count(*) FROM recipients r WHERE r.campaign_id = @campaign::bigint AND r.due_at IS NOT NULL)::bigint AS waiting,
    (SELECT count(DISTINCT r.id) FROM campaign_ranges g JOIN attempts a ON a.recipient_id BETWEEN g.lo AND g.hi
        JOIN recipients r ON r.id = a.recipient_id AND r.campaign_id = g.campaign_id
        WHERE g.campaign_id = @campaign::bigint AND a.message_id IS NOT NULL AND NOT a.failed
          AND r.message_id <> a.message_id AND r.status <> 'failed' AND r.last_replay_id IS NULL)::bigint AS doubled,
    (SELECT count(DISTINCT r.id) FROM campaign_ranges g JOIN attempts a ON a.recipient_id BETWEEN g.lo AND g.hi
        JOIN recipients r ON r.id = a.recipient_id AND r.campaign_id = g.campaign_id
        WHERE g.campaign_id = @campaign::bigint AND a.message_id IS NOT NULL AND NOT a.failed
          AND r.message_id <> a.message_id AND r.status <> 'failed' AND r.last_replay_id IS NOT NULL)::bigint AS doubled_by_replay;

-- name: VerifyCounts :many
SELECT c.status::text AS status, sum(c.n)::bigint AS n FROM campaign_counts c WHERE c.campaign_id = @campaign::bigint GROUP BY c.status;

-- name: InstanceKey :one
SELECT callback_key FROM instance;

-- name: WebhookHeard :one
-- Null: never, as far as this database knows.
SELECT max(heard_at)::timestamptz AS heard_at FROM receivers;
