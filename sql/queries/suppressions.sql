-- An operator's list of whom nothing may be sent to.

-- name: AddSuppression :one
-- One that holds as long already stays as it is.
WITH put AS (
    INSERT INTO suppressions AS s (phone, scope, kind, reason, until)
    SELECT x.phone, @scope::text, 'suppress', nullif(@reason::text, ''), coalesce(sqlc.narg(until)::timestamptz, 'infinity')
    FROM (SELECT unnest(@phones::text[]) AS phone) x ORDER BY x.phone
    ON CONFLICT (phone, scope, kind) DO UPDATE SET reason = excluded.reason, until = excluded.until, at = now(), lifted_at = NULL, lifted_by = NULL
    WHERE s.until < excluded.until
    RETURNING s.phone
), noted AS (
    INSERT INTO audit (who, what, subject, body)
    SELECT @who::text, 'suppression_added', 'suppressions', jsonb_build_object('phone', (@phones::text[])[1], 'scope', @scope::text, 'reason', @reason::text)
    FROM put HAVING count(*) > 0
)
SELECT count(*) FROM put;

-- name: RemoveSuppressions :many
-- Every kind but Meta's limits, in one scope or all; all of it or, where a word of
-- the person's own is among it and force is not given, nothing. That Meta says they
-- stopped an account's marketing is such a word. What is lifted stays as a row that
-- is over, lifted as of now: an older word that comes late does not revive it.
WITH held AS MATERIALIZED (
    SELECT s.phone, s.scope, s.kind, s.reason, s.at, (s.kind = 'stop' OR s.scope LIKE 'waba:%:marketing') AS own FROM suppressions s
    WHERE s.phone = ANY (@phones::text[]) AND s.kind <> 'wait' AND s.until > now() AND (@scope::text = '' OR s.scope = @scope::text)
    ORDER BY s.phone, s.scope, s.kind FOR UPDATE
), moved AS (
    UPDATE suppressions s SET until = CASE s.kind WHEN 'absent' THEN now() ELSE '-infinity' END, lifted_at = now(), lifted_by = @who::text FROM held h
    WHERE s.phone = h.phone AND s.scope = h.scope AND s.kind = h.kind AND (@force::boolean OR NOT EXISTS (SELECT FROM held o WHERE o.own))
    RETURNING s.scope, s.kind, h.reason, h.own
), noted AS (
    INSERT INTO audit (who, what, subject, body)
    SELECT @who::text, 'suppression_removed', 'suppressions', jsonb_build_object('phone', (@phones::text[])[1],
        'forced', bool_or(own), 'lifted', jsonb_agg(DISTINCT jsonb_build_object('scope', scope, 'kind', kind, 'reason', reason)))
    FROM moved HAVING count(*) > 0
)
SELECT h.scope, h.kind, coalesce(max(h.reason), '')::text AS reason, max(h.at)::timestamptz AS at, h.own::boolean AS own, (EXISTS (SELECT FROM moved))::boolean AS lifted
FROM held h GROUP BY h.scope, h.kind, h.own ORDER BY h.scope, h.kind;

-- name: SuppressionsPage :many
-- Those that hold, but for Meta's limits, in the order of the primary key.
SELECT s.phone, s.scope, s.kind, coalesce(s.reason, '')::text AS reason, s.until, s.at FROM suppressions s
WHERE (s.phone, s.scope, s.kind) > (@phone::text, @scope::text, @kind::text)
  AND s.kind <> 'wait' AND s.until > now() AND (@within::text = '' OR s.scope = @within::text)
  AND (cardinality(@kinds::text[]) = 0 OR s.kind = ANY (@kinds::text[]))
ORDER BY s.phone, s.scope, s.kind LIMIT 5000;

-- name: CountAbsent :one
SELECT count(*) FROM suppressions s WHERE s.kind = 'absent' AND s.until > now() AND (@within::text = '' OR s.scope = @within::text);

-- name: ScopeKnown :one
-- A number or an account that nobody has added is most likely a slip of the pen.
SELECT (@scope::text IN ('all', 'marketing', 'utility', 'authentication')
    OR EXISTS (SELECT FROM numbers n WHERE @scope::text IN ('number:' || n.id, 'waba:' || n.waba_id)))::boolean;
