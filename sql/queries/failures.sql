-- Campaigns whose messages are accepted and then fail.

-- name: Failing :many
-- How many messages of running campaigns failed that were accepted after the
-- newest one that lives, and after the operator last said go. One that had been
-- sent on before it failed is weighed against those that were delivered alone.
-- Both sides go by when messages were accepted, so the order in which webhooks
-- come, and come again, changes nothing.
SELECT c.id, count(*) AS failures, count(*) FILTER (WHERE f.suspect) AS suspects,
    max(f.accepted_at)::timestamptz AS last_at, extract(epoch FROM max(f.accepted_at) - min(f.accepted_at))::double precision AS span_seconds
FROM campaigns c LEFT JOIN campaign_health h ON h.campaign_id = c.id
JOIN campaign_failures f ON f.campaign_id = c.id AND f.accepted_at >= coalesce(c.control_at, '-infinity')
    AND f.accepted_at > coalesce(CASE WHEN f.sent THEN h.delivered_at ELSE greatest(h.sent_at, h.delivered_at) END, '-infinity')
WHERE c.id = ANY (@campaigns::bigint[]) AND c.state = 'running'
GROUP BY c.id ORDER BY c.id;

-- name: ForgetFailures :exec
-- Those that say nothing any more.
WITH over AS (
    DELETE FROM campaign_health h USING campaigns c WHERE c.id = h.campaign_id AND c.state IN ('finished', 'canceled')
)
DELETE FROM campaign_failures f USING campaigns c LEFT JOIN campaign_health h ON h.campaign_id = c.id
WHERE f.campaign_id = c.id AND (c.state IN ('finished', 'canceled') OR f.accepted_at < c.control_at
    OR f.accepted_at <= least(h.sent_at, h.delivered_at) - interval '1 minute');
