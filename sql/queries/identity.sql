-- Which database this is, and which one an operator vouches for.

-- name: Identity :one
-- waiting: what claims would take, were it vouched for.
SELECT cluster_identity()::text AS cluster, i.cluster AS vouched, i.confirmed_at,
    (SELECT count(*) FROM campaigns c WHERE c.state IN ('scheduled', 'running', 'pausing', 'paused'))::bigint AS campaigns,
    coalesce((SELECT sum(k.n) FROM campaign_counts k JOIN campaigns c ON c.id = k.campaign_id
        WHERE c.state IN ('scheduled', 'running', 'pausing', 'paused') AND k.status = 'pending'), 0)::bigint AS waiting,
    coalesce((SELECT sum(k.n) FROM campaign_counts k WHERE k.status IN ('sending', 'unknown')), 0)::bigint AS ambiguous,
    coalesce(extract(epoch FROM now() - (SELECT max(r.heard_at) FROM receivers r)), -1)::double precision AS heard_seconds
FROM instance i;

-- name: Vouched :one
SELECT (i.cluster = cluster_identity())::boolean AS vouched FROM instance i;

-- name: VouchFor :one
-- The operator vouches for what was shown, not for what it has become since. It
-- is on record, and told to whoever was told that nothing is sent.
WITH vouched AS (
    UPDATE instance i SET cluster = @cluster::text, confirmed_at = now() FROM (SELECT cluster FROM instance) was
    WHERE cluster_identity() = @cluster::text
    RETURNING was.cluster AS was
), noted AS (
    INSERT INTO audit (who, what, subject, body)
    SELECT @who::text, 'database_confirmed', 'database', jsonb_build_object('cluster', @cluster::text, 'was', was) FROM vouched WHERE was <> @cluster::text
), told AS (
    INSERT INTO notices (kind, subject, body)
    SELECT 'database.confirmed', 'database', jsonb_build_object('cluster', @cluster::text, 'was', was) FROM vouched WHERE was <> @cluster::text
)
SELECT count(*) FROM vouched;
