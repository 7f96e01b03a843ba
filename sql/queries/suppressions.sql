-- An operator's list of whom nothing may be sent to.

-- name: AddSuppression :one
-- One that holds as long already stays as it is.
WITH put AS (
    INSERT INTO suppressions AS s (phone, scope, kind, reason, until)
    SELECT x.phone, @scope::text, 'suppress', nullif(@reason::text, ''), coalesce(sqlc.narg(until)::timestamptz, 'infinity')
    FROM (SELECT unnest(@phones::text[]) AS phone) x ORDER BY x.phone
    ON CONFLICT (phone, scope, kind) DO UPDATE SET reason = excluded.reason, until = excluded.until, at = now()
    WHERE s.until < excluded.until
    RETURNING s.phone
), noted AS (
    INSERT INTO audit (who, what, subject, body)
    SELECT @who::text, 'suppression_added', 'suppressions', jsonb_build_object('phone', (@phones::text[])[1], 'scope', @scope::text, 'reason', @reason::text)
    FROM put HAVING count(*) > 0
)
SELECT count(*) FROM put;

-- name: RemoveSuppressions :many
-- Every kind but Meta's limits, in one scope or all. What is lifted stays as a row
-- that is over, and as of now: an older word that comes late does not revive it.
WITH lifted AS MATERIALIZED (
    SELECT s.phone, s.scope, s.kind, s.reason FROM suppressions s
    WHERE s.phone = ANY (@phones::text[]) AND s.kind <> 'wait' AND s.until > now() AND (@scope::text = '' OR s.scope = @scope::text)
    ORDER BY s.phone, s.scope, s.kind FOR UPDATE
), moved AS (
    UPDATE suppressions s SET until = CASE s.kind WHEN 'absent' THEN now() ELSE '-infinity' END, at = now() FROM lifted l
    WHERE s.phone = l.phone AND s.scope = l.scope AND s.kind = l.kind
    RETURNING s.scope, s.kind, l.reason
), noted AS (
    INSERT INTO audit (who, what, subject, body)
    SELECT @who::text, 'suppression_removed', 'suppressions', jsonb_build_object('phone', (@phones::text[])[1],
        'lifted', jsonb_agg(DISTINCT jsonb_build_object('scope', scope, 'kind', kind, 'reason', reason)))
    FROM moved HAVING count(*) > 0
)
SELECT DISTINCT scope, kind, coalesce(reason, '')::text AS reason FROM moved ORDER BY scope, kind;

-- name: SuppressionsPage :many
-- Those that hold, but for Meta's limits, in the order of the primary key.
SELECT s.phone, s.scope, s.kind, coalesce(s.reason, '')::text AS reason, s.until, s.at FROM suppressions s
WHERE (s.phone, s.scope, s.kind) > (@phone::text, @scope::text, @kind::text)
  AND s.kind <> 'wait' AND s.until > now() AND (@within::text = '' OR s.scope = @within::text)
ORDER BY s.phone, s.scope, s.kind LIMIT 5000;

-- name: ScopeKnown :one
-- A number or an account that nobody has added is most likely a slip of the pen.
SELECT (@scope::text IN ('all', 'marketing', 'utility', 'authentication')
    OR EXISTS (SELECT FROM numbers n WHERE @scope::text IN ('number:' || n.id, 'waba:' || n.waba_id)))::boolean;
