-- What a node or an operator looks at and nothing decides by.

-- name: RunningCounts :many
SELECT c.name, k.status::text AS status, sum(k.n)::bigint AS n
FROM campaigns c JOIN campaign_counts k ON k.campaign_id = c.id
WHERE c.state IN ('running', 'pausing', 'canceling')
GROUP BY c.name, k.status;

-- name: NumberWork :many
-- Of every number: whether a node owns it, and whether somebody is due whom it
-- could send to, if only it had an owner and its breakers let it. A fallback number
-- that stands by has nobody: it needs no owner yet. One index probe a campaign and
-- zone, as in the claim.
WITH work AS MATERIALIZED (
    SELECT DISTINCT z.campaign_id FROM campaigns c JOIN campaign_zones z ON z.campaign_id = c.id AND z.opens_at <= now() AND z.closes_at > now()
    WHERE c.state = 'running' AND c.start_at <= now() AND coalesce(c.expire_at, 'infinity') > now() AND coalesce(c.paused_until, '-infinity') <= now()
      AND (SELECT r.id FROM recipients r WHERE r.campaign_id = z.campaign_id AND r.zone = z.zone AND r.due_at <= now()
           ORDER BY r.due_at DESC, r.id LIMIT 1) IS NOT NULL
)
SELECT n.id, coalesce(l.lease_id IS NOT NULL AND NOT l.released AND l.expires_at > now(), false)::boolean AS owned,
    (n.enabled AND coalesce(n.paused_until, '-infinity') <= now() AND EXISTS (
        SELECT FROM work JOIN campaign_numbers cn ON cn.campaign_id = work.campaign_id WHERE cn.number_id = n.id
        AND (cn.role = 'primary' OR fallback_floor(cn.campaign_id) IS NOT DISTINCT FROM 0)))::boolean AS waiting
FROM numbers n LEFT JOIN number_leases l ON l.number_id = n.id ORDER BY n.id;

-- name: StuckSending :one
-- Rows in claim batches far older than any call may take.
SELECT coalesce(sum(cardinality(ids)), 0)::bigint FROM claims WHERE at < now() - interval '1 minute';

-- name: SampleValues :many
-- One recipient's values, by line of the file; line 0 is the first there is.
SELECT p.line, p.params FROM campaign_ranges g
JOIN LATERAL (SELECT line, params, id FROM recipient_params WHERE id BETWEEN g.lo AND g.hi AND campaign_id = g.campaign_id
    AND (@line::bigint = 0 OR line = @line::bigint) ORDER BY id LIMIT 1) p ON true
WHERE g.campaign_id = @campaign::bigint ORDER BY p.id LIMIT 1;

-- name: SetStart :execrows
UPDATE campaigns SET start_at = @start_at::timestamptz WHERE id = @campaign::bigint AND state IN ('importing', 'draft', 'scheduled');

-- name: DisableNumber :execrows
UPDATE numbers SET enabled = false, stop_reason = @reason::text WHERE id = @number::text;
