-- name: RecordResults :many
-- Writes what a lane settled. A row is written only by its own claim. Answers
-- and proofs that no call was made need no lease (a node that lost it can still
-- tell the truth); a fact (accepted, id X) also stands over what a webhook
-- already said of the same message. Every other acceptance is evidence about
-- another message of the row: it is not returned here, and ApplyEvidence takes it.
-- The locks are taken in the order of the ids.
WITH result AS (
    SELECT unnest(@ids::bigint[]) AS id, unnest(@claims::int[]) AS claim, unnest(@statuses::text[])::recipient_status AS status,
        unnest(@message_ids::text[]) AS message_id, unnest(@codes::int[]) AS code, unnest(@titles::text[]) AS title,
        unnest(@delays_ms::bigint[]) AS delay_ms, unnest(@refunds::boolean[]) AS refund,
        unnest(@keep_dues::boolean[]) AS keep_due, unnest(@dues::timestamptz[]) AS due
), mine AS MATERIALIZED (
    SELECT r.id, r.campaign_id, r.number_id, r.status AS was, r.accepted_at IS NULL AS fresh, x.claim, x.status, x.message_id, x.code, x.title, x.delay_ms, x.refund, x.keep_due, x.due
    FROM result x JOIN recipients r ON r.id = x.id AND r.claim = x.claim
    WHERE CASE WHEN x.status IN ('accepted', 'held') THEN r.status <> 'failed' AND coalesce(r.message_id, x.message_id) = x.message_id
               ELSE r.status = 'sending' OR (r.status = 'unknown' AND x.status <> 'unknown') END
    ORDER BY r.id FOR NO KEY UPDATE OF r
), moved AS (
    UPDATE recipients r SET
        status = CASE WHEN m.status IN ('accepted', 'held') THEN greatest(r.status, m.status) ELSE m.status END,
        due_at = CASE WHEN m.status <> 'pending' THEN NULL WHEN m.keep_due THEN m.due
                      ELSE now() + m.delay_ms * interval '1 millisecond' END,
        attempt = r.attempt - CASE WHEN m.refund THEN 1 ELSE 0 END,
        message_id = coalesce(r.message_id, nullif(m.message_id, '')),
        error_code = CASE WHEN m.status IN ('accepted', 'held') THEN NULL ELSE coalesce(nullif(m.code, 0), r.error_code) END,
        accepted_at = CASE WHEN m.status IN ('accepted', 'held') THEN coalesce(r.accepted_at, now()) ELSE r.accepted_at END,
        failed_at = CASE WHEN m.status = 'failed' THEN now() ELSE r.failed_at END
    FROM mine m
    WHERE r.id = m.id AND r.claim = m.claim
    RETURNING r.id, r.claim, r.campaign_id, r.number_id, r.status, m.was, m.fresh, m.status AS result, m.code, m.title, m.keep_due
), noted AS (   -- all but plain acceptances and give-backs
    INSERT INTO attempts (recipient_id, claim, number_id, code, title, failed)
    SELECT id, claim, number_id, nullif(code, 0), nullif(title, ''), result = 'failed' FROM moved
    WHERE result NOT IN ('accepted', 'held') AND NOT keep_due
    ON CONFLICT (recipient_id, claim) DO UPDATE SET at = now(), code = coalesce(excluded.code, attempts.code),
        title = coalesce(excluded.title, attempts.title), failed = attempts.failed OR excluded.failed
), doubted AS (
    INSERT INTO unknowns (recipient_id, claim) SELECT id, claim FROM moved WHERE status = 'unknown'
    ON CONFLICT (recipient_id) DO UPDATE SET claim = excluded.claim, since = excluded.since
), known AS (
    DELETE FROM unknowns u USING moved WHERE u.recipient_id = moved.id AND moved.was = 'unknown' AND moved.status <> 'unknown'
), heard AS (   -- a status that beat this result was heard of a message accepted now
    INSERT INTO number_traffic (number_id, accepted_at, heard_at, accepted)
    SELECT number_id, now(), CASE WHEN bool_or(was >= 'sent') THEN now() ELSE '-infinity' END, count(*) FILTER (WHERE fresh)
    FROM moved WHERE result IN ('accepted', 'held') AND number_id IS NOT NULL GROUP BY number_id ORDER BY number_id
    ON CONFLICT (number_id) DO UPDATE SET accepted_at = greatest(number_traffic.accepted_at, excluded.accepted_at),
        heard_at = greatest(number_traffic.heard_at, excluded.heard_at), accepted = number_traffic.accepted + excluded.accepted
), told AS (     -- somebody should look at what we give up: one notice an hour and campaign
    INSERT INTO notices (kind, subject, body)
    SELECT DISTINCT ON (c.id) 'campaign.dead_letters', 'campaign:' || c.id, jsonb_build_object('campaign', jsonb_build_object('id', c.id, 'name', c.name),
        'reason', concat_ws(', code ', m.title, nullif(m.code, 0)))
    FROM moved m JOIN campaigns c ON c.id = m.campaign_id
    WHERE m.status = 'dead' AND NOT EXISTS (SELECT FROM notices n
        WHERE n.kind = 'campaign.dead_letters' AND n.subject = 'campaign:' || c.id AND n.at > now() - interval '1 hour')
    ON CONFLICT DO NOTHING
), counted AS (
    INSERT INTO campaign_counts (campaign_id, status, n)
    SELECT campaign_id, s, sum(d) FROM (
        SELECT campaign_id, was AS s, -1 AS d FROM moved UNION ALL SELECT campaign_id, status, 1 FROM moved) delta
    GROUP BY campaign_id, s HAVING sum(d) <> 0
)
SELECT id, claim FROM moved;
