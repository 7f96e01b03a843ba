-- Recipients whose call was made and whose outcome nobody knows.

-- name: ResolveUnknowns :one
-- The decision, one bounded batch in one statement, so that a stale look decides
-- nothing: the row is unknown at the claim that unknowns names, and that long
-- ago enough.
--   heard    a status of a message accepted later has arrived: the webhooks work,
--            and this recipient's has not come
--   or else  no later message was accepted, and a receiver has been up for two
--            windows without a gap
-- and on a database that an operator vouches for: a restored one may have
-- forgotten statuses. Then the campaign's policy: resend while attempts and the
-- campaign last, else dead; hold waits for an operator. Rows that someone else
-- has locked are for the next run. orphan: entries whose recipient has moved on.
WITH up AS MATERIALIZED (
    SELECT count(*) > 0 AS long_enough FROM receivers
    WHERE up_since <= now() - 2 * make_interval(secs => @window_seconds::double precision)
      AND seen_at > now() - make_interval(secs => @gap_seconds::double precision)
), ripe AS MATERIALIZED (
    SELECT r.id, r.claim, CASE WHEN c.on_unknown = 'resend' AND r.attempt < c.max_attempts AND c.state IN ('running', 'pausing', 'paused')
            AND coalesce(c.expire_at, 'infinity') > now()
        THEN 'pending' ELSE 'dead' END::recipient_status AS verdict
    FROM unknowns u
    JOIN recipients r ON r.id = u.recipient_id AND r.claim = u.claim AND r.status = 'unknown'
    JOIN campaigns c ON c.id = r.campaign_id AND c.on_unknown <> 'hold'
    LEFT JOIN number_traffic t ON t.number_id = r.number_id
    CROSS JOIN up
    WHERE u.since <= now() - make_interval(secs => @window_seconds::double precision)
      AND (SELECT i.cluster = cluster_identity() FROM instance i)
      AND (t.heard_at > u.since OR (coalesce(t.accepted_at, '-infinity') <= u.since AND up.long_enough))
    ORDER BY r.id LIMIT 500
    FOR NO KEY UPDATE OF r SKIP LOCKED
), moved AS (
    UPDATE recipients r SET status = ripe.verdict, due_at = CASE WHEN ripe.verdict = 'pending' THEN now() END
    FROM ripe WHERE r.id = ripe.id AND r.claim = ripe.claim AND r.status = 'unknown'
    RETURNING r.id, r.claim, r.campaign_id, r.number_id, r.status
), noted AS (
    INSERT INTO attempts (recipient_id, claim, number_id, title) SELECT id, claim, number_id, 'unknown_outcome' FROM moved
    ON CONFLICT (recipient_id, claim) DO UPDATE SET title = excluded.title
), known AS (
    DELETE FROM unknowns u USING moved WHERE u.recipient_id = moved.id AND u.claim = moved.claim
), told AS (     -- as in RecordResults
    INSERT INTO notices (kind, subject, body)
    SELECT DISTINCT ON (c.id) 'campaign.dead_letters', 'campaign:' || c.id, jsonb_build_object('campaign', jsonb_build_object('id', c.id, 'name', c.name),
        'reason', 'unknown_outcome')
    FROM moved m JOIN campaigns c ON c.id = m.campaign_id
    WHERE m.status = 'dead' AND NOT EXISTS (SELECT FROM notices n
        WHERE n.kind = 'campaign.dead_letters' AND n.subject = 'campaign:' || c.id AND n.at > now() - interval '1 hour')
    ON CONFLICT DO NOTHING
), orphan AS (
    DELETE FROM unknowns u USING (
        SELECT o.recipient_id, o.claim FROM unknowns o LEFT JOIN recipients r ON r.id = o.recipient_id
        WHERE r.id IS NULL OR r.status <> 'unknown' OR r.claim <> o.claim) gone
    WHERE u.recipient_id = gone.recipient_id AND u.claim = gone.claim
    RETURNING u.recipient_id
), counted AS (
    INSERT INTO campaign_counts (campaign_id, status, n)
    SELECT campaign_id, 'unknown'::recipient_status, -count(*) FROM moved GROUP BY campaign_id
    UNION ALL SELECT campaign_id, status, count(*) FROM moved GROUP BY campaign_id, status
)
SELECT count(*) FILTER (WHERE moved.status = 'dead') AS dead, count(*) FILTER (WHERE moved.status = 'pending') AS resent,
    (SELECT count(*) FROM orphan) AS orphans
FROM moved;

-- name: HeldUnknowns :one
-- What waits for an operator: past its window, in a campaign that holds.
SELECT count(*) FROM unknowns u
JOIN recipients r ON r.id = u.recipient_id AND r.claim = u.claim AND r.status = 'unknown'
JOIN campaigns c ON c.id = r.campaign_id AND c.on_unknown = 'hold'
WHERE u.since <= now() - make_interval(secs => @window_seconds::double precision);

-- name: SeeReceiver :exec
-- A receiver that was not seen for longer than the gap starts its time anew.
INSERT INTO receivers (node, heard_at) VALUES (@node::text, CASE WHEN @heard::boolean THEN now() END)
ON CONFLICT (node) DO UPDATE SET seen_at = now(), heard_at = coalesce(excluded.heard_at, receivers.heard_at),
    up_since = CASE WHEN receivers.seen_at <= now() - make_interval(secs => @gap_seconds::double precision) THEN now() ELSE receivers.up_since END;
