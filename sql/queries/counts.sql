-- Counts on display: sums of a log of deltas.

-- name: FoldCounts :execrows
-- Replaces the log by its sums. Rows that are written meanwhile, or that another
-- fold has taken, are not in this snapshot or are skipped: the total stands.
WITH folded AS (
    DELETE FROM campaign_counts c USING (
        SELECT ctid AS place FROM campaign_counts FOR UPDATE SKIP LOCKED) mine
    WHERE c.ctid = mine.place
    RETURNING c.campaign_id, c.status, c.n
)
INSERT INTO campaign_counts (campaign_id, status, n)
SELECT campaign_id, status, sum(n) FROM folded GROUP BY campaign_id, status HAVING sum(n) <> 0;

-- name: Counts :many
SELECT status::text AS status, sum(n)::bigint AS n FROM campaign_counts
WHERE campaign_id = @campaign::bigint GROUP BY campaign_counts.status ORDER BY campaign_counts.status;
