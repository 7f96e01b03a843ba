-- What a node or an operator looks at and nothing decides by.

-- name: RunningCounts :many
SELECT c.name, k.status::text AS status, sum(k.n)::bigint AS n
FROM campaigns c JOIN campaign_counts k ON k.campaign_id = c.id
WHERE c.state IN ('running', 'pausing', 'canceling')
GROUP BY c.name, k.status;

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
