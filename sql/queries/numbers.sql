-- The senders: business phone numbers and what the operator says of them.

-- name: AddNumber :one
-- Everything a claim needs of a number is made with it: without its lease and
-- its breaker row the gate is closed. A number that is there stays as it is.
WITH added AS (
    INSERT INTO numbers (id, waba_id, portfolio_id, display, mps_limit, headroom, burst, token_file)
    VALUES (@id::text, @waba::text, nullif(@portfolio::text, ''), nullif(@display::text, ''),
        @mps_limit::double precision, @headroom::double precision, @burst::int, nullif(@token_file::text, ''))
    ON CONFLICT (id) DO NOTHING RETURNING id
), leased AS (
    INSERT INTO number_leases (number_id) SELECT id FROM added ON CONFLICT DO NOTHING
), gated AS (
    INSERT INTO breakers (scope) SELECT 'number:' || id FROM added ON CONFLICT DO NOTHING
), heard AS (
    INSERT INTO number_traffic (number_id) SELECT id FROM added ON CONFLICT DO NOTHING
)
SELECT count(*) FROM added;

-- name: ListNumbers :many
-- All numbers, or the one named.
SELECT n.id, n.waba_id, coalesce(n.portfolio_id, '')::text AS portfolio, coalesce(n.display, '')::text AS display,
    n.mps_limit, n.headroom, n.burst, coalesce(n.token_file, '')::text AS token_file, n.enabled, coalesce(n.stop_reason, '')::text AS stop_reason,
    greatest(extract(epoch FROM n.paused_until - now()), 0)::double precision AS paused_seconds,
    coalesce(n.learned_mps, 0)::double precision AS learned_mps, coalesce(n.learned_ceiling, 0)::double precision AS learned_ceiling,
    coalesce(extract(epoch FROM now() - n.learned_at), 0)::double precision AS learned_seconds,
    (CASE WHEN l.lease_id IS NOT NULL AND NOT l.released AND l.expires_at > now() THEN coalesce(l.holder, '') ELSE '' END)::text AS holder,
    (CASE WHEN l.lease_id IS NOT NULL AND NOT l.released THEN greatest(extract(epoch FROM l.expires_at - now()), 0) ELSE 0 END)::double precision AS lease_seconds,
    coalesce(n.said, '')::text AS said, n.said_at, coalesce(a.daily_limit, 0)::bigint AS daily_limit,
    coalesce(a.said, '')::text AS account_said, a.said_at AS account_said_at
FROM numbers n LEFT JOIN number_leases l ON l.number_id = n.id LEFT JOIN accounts a ON a.waba_id = n.waba_id
WHERE @id::text = '' OR n.id = @id::text
ORDER BY n.id;

-- name: SetNumber :execrows
-- Lanes read the settings again with each look for work, so this is live. An
-- argument that is null changes nothing; an empty text clears.
UPDATE numbers SET
    mps_limit = coalesce(sqlc.narg(mps_limit)::double precision, mps_limit),
    headroom = coalesce(sqlc.narg(headroom)::double precision, headroom),
    burst = coalesce(sqlc.narg(burst)::int, burst),
    token_file = CASE WHEN sqlc.narg(token_file)::text IS NULL THEN token_file ELSE nullif(sqlc.narg(token_file)::text, '') END,
    display = CASE WHEN sqlc.narg(display)::text IS NULL THEN display ELSE nullif(sqlc.narg(display)::text, '') END
WHERE id = @id::text;

-- name: EnableNumber :execrows
-- An operator says that what stopped the number is mended. A running throttle
-- pause is Meta's word and stays. Whoever was told of the stop is told of its end.
WITH moved AS (
    UPDATE numbers SET enabled = true, enabled_at = now(), stop_reason = NULL WHERE id = @id::text RETURNING id
), told AS (
    INSERT INTO notices (kind, subject, body)
    SELECT 'number.enabled', 'number:' || moved.id, jsonb_build_object('numbers', jsonb_build_array(moved.id)) FROM moved
    WHERE 'number.stopped' = (SELECT n.kind FROM notices n
        WHERE n.subject = 'number:' || moved.id AND n.kind LIKE 'number.%' ORDER BY n.id DESC LIMIT 1)
)
SELECT id FROM moved;
