-- What a campaign came to, from its rows.

-- name: ReportFailures :many
-- Recipients, not attempts: who ended failed or dead, by what it came to. From
-- attempts, so the cost grows with the trouble; a failed one counts by the
-- message that failed, a dead one by its last attempt.
WITH ended AS (
    SELECT DISTINCT ON (a.recipient_id) r.status, a.code, a.title
    FROM campaign_ranges g JOIN attempts a ON a.recipient_id BETWEEN g.lo AND g.hi
    JOIN recipients r ON r.id = a.recipient_id AND r.campaign_id = g.campaign_id
    WHERE g.campaign_id = @campaign::bigint AND r.status IN ('dead', 'failed') AND CASE WHEN r.status = 'dead' THEN a.claim = r.claim ELSE a.failed END
    ORDER BY a.recipient_id, a.claim DESC
)
SELECT e.status::text AS status, coalesce(e.code, 0)::int AS code, coalesce(max(e.title COLLATE "C"), '')::text AS title, count(*) AS n
FROM ended e GROUP BY e.status, e.code, CASE WHEN e.code IS NULL THEN e.title END
ORDER BY count(*) DESC, e.status, e.code, 3;

-- name: ReportNumbers :many
-- From whom how many messages went out, and in which time.
SELECT r.number_id::text AS number_id, count(*) AS n, min(r.accepted_at)::timestamptz AS first_at, max(r.accepted_at)::timestamptz AS last_at,
    extract(epoch FROM max(r.accepted_at) - min(r.accepted_at))::double precision AS seconds
FROM campaign_ranges g JOIN recipients r ON r.id BETWEEN g.lo AND g.hi AND r.campaign_id = g.campaign_id
WHERE g.campaign_id = @campaign::bigint AND r.accepted_at IS NOT NULL AND r.number_id IS NOT NULL
GROUP BY r.number_id ORDER BY r.number_id;

-- name: ReportControls :many
-- Its confirmed pauses and its cancel, in order.
SELECT k.kind, coalesce(k.reason, '')::text AS reason, k.asked_at, k.confirmed_at, k.ended_at
FROM campaign_controls k WHERE k.campaign_id = @campaign::bigint ORDER BY k.control_version;

-- name: ReportMoment :one
SELECT now()::timestamptz AS at;

-- name: KeepReport :execrows
-- Of the end that was looked at, and of no other; of two the first stays.
INSERT INTO campaign_reports (campaign_id, finished_at, body)
SELECT c.id, c.finished_at, @body::jsonb FROM campaigns c
WHERE c.id = @campaign::bigint AND c.state IN ('finished', 'canceled') AND c.finished_at = @finished_at::timestamptz
ON CONFLICT (campaign_id) DO UPDATE SET finished_at = excluded.finished_at, at = excluded.at, body = excluded.body
WHERE campaign_reports.finished_at < excluded.finished_at;

-- name: KeptReport :many
-- The report of the campaign's end, if it stands.
SELECT k.body FROM campaign_reports k JOIN campaigns c ON c.id = k.campaign_id AND c.finished_at = k.finished_at AND c.state IN ('finished', 'canceled')
WHERE k.campaign_id = @campaign::bigint;

-- name: Unreported :many
-- Campaigns that are over, and whose report is not written yet.
SELECT c.id FROM campaigns c LEFT JOIN campaign_reports k ON k.campaign_id = c.id
WHERE c.state IN ('finished', 'canceled') AND c.finished_at IS NOT NULL AND k.finished_at IS DISTINCT FROM c.finished_at ORDER BY c.id;
