-- Whom other campaigns must leave in peace too, and failed messages that are
-- worth another one.

-- name: SparePersons :exec
-- A person is that of a row (of its claim under way, where claim is not 0), or a
-- phone. What was said later stands, so that a webhook that comes again, or late,
-- changes nothing; of stop and resume of one second, stop.
--   pair       this number waits 4^X s, X = how often in a row; after ten quiet
--              minutes the row is over. X stops at 5, 17 minutes: Meta's largest
--              burst of 45 is owed for 4 and a half
--   marketing  the account's marketing waits for_ms from when it was said
--   for_good   the account's marketing has been refused
--   absent     not on WhatsApp: all marketing is told, whoever sends it, for a year
--              at most; each campaign says for how many days of it that counts
--   resume     … and is wanted again: what was refused keeps its time, and was lifted then
WITH news AS (
    SELECT unnest(@ids::bigint[]) AS id, unnest(@claims::int[]) AS claim, unnest(@phones::text[]) AS phone,
        unnest(@numbers::text[]) AS number_id, unnest(@accounts::text[]) AS account, unnest(@spares::text[]) AS spare,
        unnest(@for_ms::bigint[]) AS for_ms, unnest(@at_ms::bigint[]) AS at_ms, unnest(@reasons::text[]) AS reason
), person AS (
    SELECT coalesce(p.phone, nullif(n.phone, '')) AS phone, n.spare, n.reason,
        CASE n.spare WHEN 'pair' THEN 'number:' || m.id WHEN 'absent' THEN 'marketing' ELSE 'waba:' || coalesce(nullif(n.account, ''), m.waba_id) || ':marketing' END AS scope,
        CASE WHEN n.spare IN ('pair', 'marketing') THEN 'wait' WHEN n.spare = 'absent' THEN 'absent' ELSE 'suppress' END AS kind,
        coalesce(to_timestamp(nullif(n.at_ms, 0) / 1000.0), now()) AS at, n.for_ms * interval '1 millisecond' AS span
    FROM news n LEFT JOIN recipients r ON r.id = n.id LEFT JOIN recipient_params p ON p.id = n.id
    LEFT JOIN numbers m ON m.id = coalesce(nullif(n.number_id, ''), r.number_id)
    WHERE n.claim = 0 OR (r.claim = n.claim AND r.status IN ('sending', 'unknown'))
), latest AS (
    SELECT DISTINCT ON (phone, scope, kind) phone, scope, kind, reason, at, CASE spare
            WHEN 'pair' THEN now() + interval '1 second' WHEN 'marketing' THEN at + span
            WHEN 'for_good' THEN 'infinity'::timestamptz WHEN 'absent' THEN at + interval '365 days' ELSE '-infinity' END AS until
    FROM person WHERE phone IS NOT NULL AND scope IS NOT NULL ORDER BY phone, scope, kind, at DESC, spare
)
INSERT INTO suppressions AS s (phone, scope, kind, reason, until, at, lifted_at)
SELECT phone, scope, kind, reason, until, CASE WHEN until > '-infinity' THEN at ELSE '-infinity' END, CASE WHEN until = '-infinity' THEN at END
FROM latest ORDER BY phone, scope, kind
ON CONFLICT (phone, scope, kind) DO UPDATE SET lifted_at = excluded.lifted_at, lifted_by = NULL,
    reason = CASE WHEN excluded.lifted_at IS NULL THEN excluded.reason ELSE s.reason END,
    at = CASE WHEN excluded.lifted_at IS NULL THEN excluded.at ELSE s.at END,
    strikes = CASE WHEN s.until > now() - interval '10 minutes' THEN least(s.strikes + 1, 5) ELSE 0 END,
    until = CASE WHEN s.kind = 'suppress' THEN excluded.until
        WHEN s.scope LIKE 'number:%' THEN now() + interval '1 second'
            * power(4, CASE WHEN s.until > now() - interval '10 minutes' THEN least(s.strikes + 1, 5) ELSE 0 END)
        ELSE greatest(s.until, excluded.until) END
WHERE greatest(excluded.at, excluded.lifted_at) > greatest(s.at, s.lifted_at)
    OR (s.kind = 'suppress' AND excluded.at = greatest(s.at, s.lifted_at) AND excluded.until > s.until);

-- name: HeedWishes :exec
-- What persons asked for in messages to us. The later word stands, and of two of
-- one second the stop: whatever the order they come in, and however often. A start
-- takes back their own words in every scope, which keep their time, and counts at
-- our own numbers alone: who lets another sender write does not let us.
WITH news AS (
    SELECT unnest(@phones::text[]) AS phone, unnest(@numbers::text[]) AS number_id, unnest(@scopes::text[]) AS scope,
        unnest(@stops::boolean[]) AS stop, unnest(@at_ms::bigint[]) AS at_ms
), said AS (
    SELECT n.phone, n.scope, n.stop, coalesce(to_timestamp(nullif(n.at_ms, 0) / 1000.0), now()) AS at FROM news n
    WHERE n.stop OR EXISTS (SELECT FROM numbers m WHERE m.id = n.number_id)
), latest AS (
    SELECT DISTINCT ON (phone, scope) phone, scope, at, CASE WHEN stop THEN 'infinity'::timestamptz ELSE '-infinity' END AS until
    FROM said ORDER BY phone, scope, at DESC, stop DESC
)
INSERT INTO suppressions AS s (phone, scope, kind, reason, until, at, lifted_at)
SELECT phone, scope, 'stop', 'message', until, CASE WHEN until > '-infinity' THEN at ELSE '-infinity' END, CASE WHEN until = '-infinity' THEN at END
FROM latest ORDER BY phone, scope
ON CONFLICT (phone, scope, kind) DO UPDATE SET reason = excluded.reason, until = excluded.until, lifted_at = excluded.lifted_at, lifted_by = NULL,
    at = CASE WHEN excluded.lifted_at IS NULL THEN excluded.at ELSE s.at END
WHERE greatest(excluded.at, excluded.lifted_at) > greatest(s.at, s.lifted_at)
    OR (excluded.at = greatest(s.at, s.lifted_at) AND excluded.until > s.until);

-- name: DropWaits :execrows
-- A piece of those that are long over.
DELETE FROM suppressions WHERE (phone, scope, kind) IN (
    SELECT s.phone, s.scope, s.kind FROM suppressions s WHERE s.kind IN ('absent', 'wait') AND s.until < now() - interval '1 day'
    ORDER BY s.until LIMIT @piece FOR UPDATE SKIP LOCKED);

-- name: ShareCampaignsOf :exec
-- Runs before RetryFailed in the same implicit transaction: a campaign that
-- finishes meanwhile waits, or has finished before the rows are looked at.
SELECT FROM campaigns c WHERE c.id IN (SELECT r.campaign_id FROM recipients r WHERE r.id = ANY (@ids::bigint[])) ORDER BY c.id FOR SHARE;

-- name: RetryFailed :many
-- A failed message is final; another one is a new claim, by the campaign's rule:
-- while it goes on and attempts are left, and once only where the code is worth
-- no more. The failed message stays on record, and its words are of an earlier
-- claim from here on: what they may still change, ApplyEvidence says.
WITH news AS (
    SELECT unnest(@ids::bigint[]) AS id, unnest(@claims::int[]) AS claim, unnest(@message_ids::text[]) AS message_id,
        unnest(@codes::int[]) AS code, unnest(@onces::boolean[]) AS once, unnest(@delays_ms::bigint[]) AS delay_ms
), mine AS MATERIALIZED (
    SELECT r.id, greatest(coalesce(r.failed_at, now()) + n.delay_ms * interval '1 millisecond', now()) AS due_at
    FROM news n JOIN recipients r ON r.id = n.id AND r.claim = n.claim AND r.status = 'failed' AND r.message_id = n.message_id
    JOIN campaigns c ON c.id = r.campaign_id AND c.state IN ('running', 'pausing', 'paused')
        AND coalesce(c.expire_at, 'infinity') > now() + n.delay_ms * interval '1 millisecond'
    WHERE r.attempt < c.max_attempts AND NOT (n.once AND EXISTS (
        SELECT FROM attempts a WHERE a.recipient_id = r.id AND a.claim < r.claim AND a.code = n.code))
    ORDER BY r.id FOR NO KEY UPDATE OF r
), moved AS (
    UPDATE recipients r SET status = 'pending', due_at = m.due_at, claim = r.claim + 1, message_id = NULL,
        accepted_at = NULL, sent_at = NULL, failed_at = NULL
    FROM mine m WHERE r.id = m.id AND r.status = 'failed'
    RETURNING r.id, r.campaign_id
), counted AS (
    INSERT INTO campaign_counts (campaign_id, status, n)
    SELECT campaign_id, 'failed'::recipient_status, -count(*) FROM moved GROUP BY campaign_id
    UNION ALL SELECT campaign_id, 'pending'::recipient_status, count(*) FROM moved GROUP BY campaign_id
)
SELECT id FROM moved;
