-- What the platform says of messages. Rank folds within one message; two
-- messages of one row are never compared by rank.

-- name: ApplyStatuses :many
-- The common case, race-free without a look at attempts: a living word about
-- the message the row shows, or about its current claim while it shows none,
-- unless the row shows failed. Whatever is not returned goes to ApplyEvidence.
-- One row per recipient.
WITH news AS (
    SELECT unnest(@ids::bigint[]) AS id, unnest(@claims::int[]) AS claim, unnest(@statuses::text[])::recipient_status AS status,
        unnest(@message_ids::text[]) AS message_id,
        unnest(@sent_ms::bigint[]) AS sent_ms, unnest(@delivered_ms::bigint[]) AS delivered_ms, unnest(@read_ms::bigint[]) AS read_ms
), mine AS MATERIALIZED (
    SELECT r.id, r.status AS was, n.claim, n.status, n.message_id,
        to_timestamp(nullif(n.sent_ms, 0) / 1000.0) AS sent_at, to_timestamp(nullif(n.delivered_ms, 0) / 1000.0) AS delivered_at,
        to_timestamp(nullif(n.read_ms, 0) / 1000.0) AS read_at
    FROM news n JOIN recipients r ON r.id = n.id
    WHERE n.status <> 'failed' AND r.status <> 'failed'
      AND (r.message_id = n.message_id OR (r.message_id IS NULL AND r.claim = n.claim))
    ORDER BY r.id FOR NO KEY UPDATE OF r
), moved AS (
    UPDATE recipients r SET status = greatest(r.status, m.status), due_at = NULL, message_id = m.message_id, error_code = NULL,
        sent_at = least(r.sent_at, m.sent_at), delivered_at = least(r.delivered_at, m.delivered_at), read_at = least(r.read_at, m.read_at)
    FROM mine m
    WHERE r.id = m.id AND (m.status > r.status OR r.message_id IS NULL
        OR m.sent_at < coalesce(r.sent_at, 'infinity') OR m.delivered_at < coalesce(r.delivered_at, 'infinity') OR m.read_at < coalesce(r.read_at, 'infinity'))
    RETURNING r.id, r.campaign_id, r.number_id, r.status, r.accepted_at, m.was
), known AS (
    DELETE FROM unknowns u USING moved WHERE u.recipient_id = moved.id AND moved.was = 'unknown'
), heard AS (   -- only what is news: the row of a number is locked by every writer that touches it
    INSERT INTO number_traffic (number_id, heard_at)
    SELECT m.number_id, max(m.accepted_at) FROM moved m LEFT JOIN number_traffic t ON t.number_id = m.number_id
    WHERE m.number_id IS NOT NULL AND m.accepted_at > coalesce(t.heard_at, '-infinity') GROUP BY m.number_id ORDER BY m.number_id
    ON CONFLICT (number_id) DO UPDATE SET heard_at = greatest(number_traffic.heard_at, excluded.heard_at)
), lives AS (   -- what was accepted up to then and failed is one row's trouble
    INSERT INTO campaign_health AS h (campaign_id, sent_at, delivered_at)
    SELECT campaign_id, max(at), coalesce(max(at) FILTER (WHERE status >= 'delivered'), '-infinity')
    FROM (SELECT m.campaign_id, m.status, coalesce(m.accepted_at, now()) AS at FROM moved m WHERE m.status IN ('sent', 'delivered', 'read')) m
    GROUP BY campaign_id
    HAVING NOT EXISTS (SELECT FROM campaign_health k WHERE k.campaign_id = m.campaign_id
        AND k.sent_at >= max(at) - interval '250 ms' AND k.delivered_at >= coalesce(max(at) FILTER (WHERE status >= 'delivered'), '-infinity') - interval '250 ms')
    ORDER BY campaign_id
    ON CONFLICT (campaign_id) DO UPDATE SET sent_at = greatest(h.sent_at, excluded.sent_at), delivered_at = greatest(h.delivered_at, excluded.delivered_at)
), counted AS (
    INSERT INTO campaign_counts (campaign_id, status, n)
    SELECT campaign_id, s, sum(d) FROM (
        SELECT campaign_id, was AS s, -1 AS d FROM moved UNION ALL SELECT campaign_id, status, 1 FROM moved) delta
    GROUP BY campaign_id, s HAVING sum(d) <> 0
)
SELECT id::bigint AS id, claim::int AS claim FROM mine;

-- name: LockRecipients :exec
-- Runs before ApplyEvidence in the same implicit transaction, so that the
-- evidence statement's snapshot is taken under the rows' locks.
SELECT FROM recipients r WHERE r.id = ANY (@ids::bigint[]) ORDER BY r.id FOR NO KEY UPDATE;

-- name: ApplyEvidence :many
-- Everything else that proves something about a message, one row per recipient,
-- under LockRecipients. The verdicts:
--   ignore  another message, noted failed: only delivered or read of it counts
--   note    failed about a message the row does not show: a note
--   yield   failed about the row's message while another message lives: the row takes the living one
--   move    about the row's message, or its first word: rank decides
--   other   a living word about another message: it replaces failed, else rank decides
-- A message that was delivered lives, whatever is said of it later. answer: the
-- API's own acceptance, not a webhook. failed: the row shows failed because of
-- this message, now or since before.
WITH news AS (
    SELECT unnest(@ids::bigint[]) AS id, unnest(@claims::int[]) AS claim, unnest(@statuses::text[])::recipient_status AS status,
        unnest(@message_ids::text[]) AS message_id, unnest(@codes::int[]) AS code, unnest(@titles::text[]) AS title,
        unnest(@sent_ms::bigint[]) AS sent_ms, unnest(@delivered_ms::bigint[]) AS delivered_ms,
        unnest(@read_ms::bigint[]) AS read_ms, unnest(@failed_ms::bigint[]) AS failed_ms,
        unnest(@suspects::boolean[]) AS suspect, unnest(@answers::boolean[]) AS answer
), seen AS MATERIALIZED (
    SELECT n.*, r.campaign_id, r.number_id, r.accepted_at, r.status AS was, r.claim AS row_claim, r.message_id AS shown,
        r.message_id IS NOT DISTINCT FROM n.message_id AS same, coalesce(own.failed, false) AS noted,
        (SELECT a.message_id FROM attempts a WHERE a.recipient_id = n.id AND a.claim <> n.claim
            AND a.message_id IS NOT NULL AND NOT a.failed ORDER BY a.claim LIMIT 1) AS living
    FROM news n JOIN recipients r ON r.id = n.id LEFT JOIN attempts own ON own.recipient_id = n.id AND own.claim = n.claim
), judged AS MATERIALIZED (
    SELECT *, status = 'failed' AND NOT (same AND was >= 'delivered') AS fails, CASE
        WHEN status <> 'failed' AND noted AND NOT same AND status < 'delivered' THEN 'ignore'
        WHEN status = 'failed' AND NOT same AND (claim < row_claim OR shown IS NOT NULL) THEN 'note'
        WHEN status = 'failed' AND living IS NOT NULL AND was < 'delivered' THEN 'yield'
        WHEN same OR (shown IS NULL AND was <> 'failed') THEN 'move'
        ELSE 'other' END AS verdict
    FROM seen
), moved AS (
    UPDATE recipients r SET
        status = CASE WHEN j.verdict = 'yield' THEN r.status
                      WHEN j.verdict = 'other' AND r.status = 'failed' THEN j.status
                      ELSE greatest(r.status, j.status) END,
        due_at = CASE WHEN j.verdict = 'yield' THEN r.due_at END,
        message_id = CASE WHEN j.verdict = 'yield' THEN j.living WHEN j.verdict = 'move' OR r.status = 'failed' THEN j.message_id ELSE r.message_id END,
        error_code = CASE WHEN j.verdict = 'yield' THEN NULL
                          WHEN j.verdict = 'move' AND j.status <= r.status THEN r.error_code
                          WHEN j.status = 'failed' THEN nullif(j.code, 0) END,
        accepted_at = CASE WHEN j.answer THEN coalesce(r.accepted_at, now()) ELSE r.accepted_at END,
        sent_at = least(r.sent_at, to_timestamp(nullif(j.sent_ms, 0) / 1000.0)),
        delivered_at = least(r.delivered_at, to_timestamp(nullif(j.delivered_ms, 0) / 1000.0)),
        read_at = least(r.read_at, to_timestamp(nullif(j.read_ms, 0) / 1000.0)),
        failed_at = CASE WHEN j.verdict = 'move' THEN least(r.failed_at, to_timestamp(nullif(j.failed_ms, 0) / 1000.0)) ELSE r.failed_at END
    FROM judged j
    WHERE r.id = j.id AND j.verdict IN ('move', 'other', 'yield')
    RETURNING r.id, r.campaign_id, r.status, r.accepted_at, j.was
), noted AS (   -- every failure keeps its code and title; every other message is a duplicate, kept and counted
    INSERT INTO attempts (recipient_id, claim, number_id, code, title, message_id, failed)
    SELECT id, claim, number_id, nullif(code, 0), nullif(title, ''), nullif(message_id, ''), fails FROM judged
    WHERE status = 'failed' OR failed_ms <> 0 OR (noted AND status >= 'delivered') OR (verdict = 'other' AND shown IS NOT NULL)
    ON CONFLICT (recipient_id, claim) DO UPDATE SET
        code = coalesce(excluded.code, attempts.code), title = coalesce(excluded.title, attempts.title),
        message_id = coalesce(excluded.message_id, attempts.message_id),
        failed = excluded.failed
), fallen AS (   -- once a message: only what moves its row to failed
    INSERT INTO campaign_failures (campaign_id, accepted_at, suspect, sent)
    SELECT campaign_id, coalesce(accepted_at, now()), suspect, was = 'sent' OR sent_ms <> 0 FROM judged
    WHERE verdict = 'move' AND status = 'failed' AND was < 'failed'
), known AS (
    DELETE FROM unknowns u USING moved WHERE u.recipient_id = moved.id AND moved.was = 'unknown' AND moved.status <> 'unknown'
), heard AS (
    INSERT INTO number_traffic (number_id, heard_at)
    SELECT number_id, max(accepted_at) FROM judged
    WHERE same AND status >= 'sent' AND number_id IS NOT NULL AND accepted_at IS NOT NULL GROUP BY number_id ORDER BY number_id
    ON CONFLICT (number_id) DO UPDATE SET heard_at = greatest(number_traffic.heard_at, excluded.heard_at)
), lives AS (   -- what was accepted up to then and failed is one row's trouble
    INSERT INTO campaign_health AS h (campaign_id, sent_at, delivered_at)
    SELECT campaign_id, max(at), coalesce(max(at) FILTER (WHERE status >= 'delivered'), '-infinity')
    FROM (SELECT m.campaign_id, m.status, coalesce(m.accepted_at, now()) AS at FROM moved m WHERE m.status IN ('sent', 'delivered', 'read')) m
    GROUP BY campaign_id
    HAVING NOT EXISTS (SELECT FROM campaign_health k WHERE k.campaign_id = m.campaign_id
        AND k.sent_at >= max(at) - interval '250 ms' AND k.delivered_at >= coalesce(max(at) FILTER (WHERE status >= 'delivered'), '-infinity') - interval '250 ms')
    ORDER BY campaign_id
    ON CONFLICT (campaign_id) DO UPDATE SET sent_at = greatest(h.sent_at, excluded.sent_at), delivered_at = greatest(h.delivered_at, excluded.delivered_at)
), counted AS (
    INSERT INTO campaign_counts (campaign_id, status, n)
    SELECT campaign_id, s, sum(d) FROM (
        SELECT campaign_id, was AS s, -1 AS d FROM moved UNION ALL SELECT campaign_id, status, 1 FROM moved) delta
    GROUP BY campaign_id, s HAVING sum(d) <> 0
)
SELECT id::bigint AS id, claim::int AS claim, verdict::text AS verdict, campaign_id::bigint AS campaign_id,
    coalesce(number_id, '')::text AS number_id, coalesce(accepted_at, now())::timestamptz AS accepted_at,
    (verdict = 'move' AND status = 'failed' AND was <= 'failed')::boolean AS failed
FROM judged;

-- name: FindMessages :many
-- Statuses without a callback id of ours, found by phone and message id; ids
-- that only attempts remembers count too. A row shows the message of its
-- current claim unless attempts says that the current claim had another. The
-- limit, a phone's newest 100 campaigns, keeps the planner on the indexes.
WITH asked AS (
    SELECT unnest(@keys::int[]) AS key, unnest(@phones::text[]) AS phone, unnest(@message_ids::text[]) AS message_id
)
SELECT DISTINCT ON (a.key) a.key::int AS key, r.id, coalesce(k.claim, CASE WHEN EXISTS (
        SELECT FROM attempts o WHERE o.recipient_id = r.id AND o.claim = r.claim AND o.message_id <> a.message_id)
    THEN r.claim - 1 ELSE r.claim END)::int AS claim
FROM asked a
CROSS JOIN LATERAL (
    SELECT p.id FROM recipient_params p WHERE p.phone = a.phone COLLATE "C" ORDER BY p.campaign_id DESC LIMIT 100) p
JOIN recipients r ON r.id = p.id
LEFT JOIN attempts k ON k.recipient_id = r.id AND k.message_id = a.message_id
WHERE r.message_id = a.message_id OR k.message_id IS NOT NULL
ORDER BY a.key, r.id, k.claim;

-- name: KeepEvents :exec
-- For 30 days, and statuses that found no recipient for 7, in which they are
-- tried again. Of those with one key, the first.
INSERT INTO webhook_events (key, kind, waba_id, number_id, body, retry_at, keep_until)
SELECT nullif(key, ''), kind, nullif(account, ''), nullif(number, ''), body::jsonb, CASE WHEN kind = 'unmatched' THEN now() END,
    now() + CASE WHEN kind = 'unmatched' THEN interval '7 days' ELSE interval '30 days' END
FROM (SELECT unnest(@kinds::text[]) AS kind, unnest(@accounts::text[]) AS account, unnest(@numbers::text[]) AS number,
    unnest(@bodies::text[]) AS body, unnest(@keys::text[]) AS key) event
ON CONFLICT (key) WHERE key IS NOT NULL DO NOTHING;

-- name: TakeUnmatched :many
-- A page of statuses that found no recipient and are due for another try. Each
-- is put off before it is tried, so that one that cannot be tried holds up no
-- other: by a minute, then by thrice its age, which makes 8 tries in 7 days.
WITH due AS MATERIALIZED (
    SELECT e.id FROM webhook_events e WHERE e.retry_at <= now() ORDER BY e.retry_at LIMIT @page FOR UPDATE SKIP LOCKED
)
UPDATE webhook_events e SET retry_at = now() + greatest(interval '1 minute', 3 * (now() - e.at)) FROM due
WHERE e.id = due.id RETURNING e.id, e.body;

-- name: ForgetUnmatched :exec
-- Those that found their recipient.
DELETE FROM webhook_events WHERE id = ANY (@ids::bigint[]);

-- name: GiveUpUnmatched :exec
-- What cannot be read is kept as it is, and never tried again.
UPDATE webhook_events SET kind = 'unreadable', retry_at = NULL WHERE id = ANY (@ids::bigint[]);

-- name: DropEvents :execrows
-- A piece of those whose time is over: they hold phone numbers and words.
DELETE FROM webhook_events WHERE id IN (
    SELECT e.id FROM webhook_events e WHERE e.keep_until <= now() ORDER BY e.keep_until LIMIT @piece FOR UPDATE SKIP LOCKED);
