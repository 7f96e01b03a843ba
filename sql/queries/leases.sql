-- Ownership. Expiry is judged by the database's clock alone; a bidder also
-- proves that it has watched the lease stand still.

-- name: Census :many
-- A number needs an owner while it has a pausing or canceling campaign, a
-- running one with a zone that is open or about to be (an owner takes a moment to
-- be found), or claims rows that a dead owner left; a fallback number only while
-- it may claim something. The living nodes stand in every row, and those of them
-- that cannot reach the platform; a row without a number says that none needs an
-- owner.
WITH living AS (
    SELECT coalesce(array_agg(id ORDER BY id), '{}')::text[] AS ids,
        coalesce(array_agg(id ORDER BY id) FILTER (WHERE apart), '{}')::text[] AS apart
    FROM nodes WHERE seen_at > now() - make_interval(secs => @ttl_seconds::double precision)
), needed AS (
    SELECT n.id AS number_id, l.lease_id, l.hb, l.holder, l.lease_id IS NULL OR l.released AS free, now() - l.expires_at AS expired
    FROM numbers n LEFT JOIN number_leases l ON l.number_id = n.id
    WHERE EXISTS (SELECT FROM claims c WHERE c.number_id = n.id)
       OR EXISTS (SELECT FROM campaign_numbers cn JOIN campaigns c ON c.id = cn.campaign_id
                  WHERE cn.number_id = n.id AND c.state IN ('running', 'pausing', 'canceling')
                    AND (c.state <> 'running' OR EXISTS (SELECT FROM campaign_zones z
                         WHERE z.campaign_id = c.id AND z.opens_at <= now() + interval '15 seconds' AND z.closes_at > now()))
                    AND (cn.role = 'primary' OR fallback_floor(c.id) IS NOT NULL))
)
SELECT living.ids::text[] AS nodes, living.apart::text[] AS apart, coalesce(needed.number_id, '')::text AS number_id,
    coalesce(needed.lease_id::text, '')::text AS lease_id, coalesce(needed.hb, 0)::bigint AS hb,
    coalesce(needed.holder, '')::text AS holder, coalesce(needed.free, false)::boolean AS free,
    coalesce(extract(epoch FROM needed.expired), 0)::double precision AS expired_seconds
FROM living LEFT JOIN needed ON true ORDER BY needed.number_id;

-- name: EnsureLease :exec
INSERT INTO number_leases (number_id) VALUES (@number::text) ON CONFLICT DO NOTHING;

-- name: AcquireLease :one
-- Free ones go at once; an expired one only to a bidder that names the lease
-- and the heartbeat it has watched. A clean release never skips a quarantine
-- that is still running.
WITH taken AS (
    UPDATE number_leases SET lease_id = gen_random_uuid(), holder = @node::text, hb = 0, released = false, silent_at = NULL,
        ready_at = CASE WHEN lease_id IS NULL OR released THEN greatest(coalesce(ready_at, '-infinity'), now())
                        ELSE greatest(expires_at, now()) + make_interval(secs => @quarantine_seconds::double precision) END,
        expires_at = now() + make_interval(secs => @ttl_seconds::double precision)
    WHERE number_id = @number::text
      AND (lease_id IS NULL OR released
           OR (expires_at < now() AND lease_id::text = @seen_lease::text AND hb = @seen_hb::bigint))
    RETURNING number_id, lease_id, holder, ready_at
), noted AS (
    INSERT INTO lease_events (number_id, lease_id, holder, kind, ready_at)
    SELECT number_id, lease_id, holder, 'grant', ready_at FROM taken
)
SELECT lease_id::text AS lease_id, extract(epoch FROM greatest(ready_at - now(), interval '0'))::double precision AS ready_seconds FROM taken;

-- name: Heartbeat :one
-- A node's sign of life, and the leases it renews. Rows are locked in the order
-- of their numbers, so two nodes never deadlock. A node that leaves is no longer
-- counted, though its leases live on until its lanes have drained. Nodes that
-- died long ago are forgotten on the way.
WITH mine AS (
    SELECT unnest(@numbers::text[]) AS number_id, unnest(@leases::text[])::uuid AS lease_id
), held AS MATERIALIZED (
    SELECT l.number_id, l.lease_id FROM mine JOIN number_leases l
        ON l.number_id = mine.number_id AND l.lease_id = mine.lease_id AND NOT l.released
    ORDER BY l.number_id FOR NO KEY UPDATE OF l
), renewed AS (
    UPDATE number_leases l SET hb = l.hb + 1, expires_at = now() + make_interval(secs => @ttl_seconds::double precision), silent_at = NULL
    FROM held WHERE l.number_id = held.number_id AND l.lease_id = held.lease_id
    RETURNING l.number_id, l.lease_id
), present AS (
    INSERT INTO nodes AS n (id, apart) SELECT @node::text, @apart::boolean WHERE NOT @leaving::boolean
    ON CONFLICT (id) DO UPDATE SET seen_at = now(), apart = excluded.apart,
        up_since = CASE WHEN n.seen_at < now() - make_interval(secs => @ttl_seconds::double precision) THEN now() ELSE n.up_since END
), gone AS (
    DELETE FROM nodes n WHERE (n.id = @node::text AND @leaving::boolean)
       OR n.id IN (SELECT old.id FROM nodes old WHERE old.id <> @node::text AND old.seen_at < now() - interval '1 day'
                   ORDER BY old.id FOR UPDATE SKIP LOCKED)
)
SELECT cluster_identity()::text AS cluster,
    coalesce(array_agg(number_id ORDER BY number_id), '{}')::text[] AS numbers,
    coalesce(array_agg(lease_id::text ORDER BY number_id), '{}')::text[] AS leases
FROM renewed;

-- name: ReleaseLease :execrows
WITH gone AS (
    UPDATE number_leases SET released = true, expires_at = now()
    WHERE number_id = @number::text AND lease_id = @lease::uuid AND NOT released
    RETURNING number_id, lease_id, holder
)
INSERT INTO lease_events (number_id, lease_id, holder, kind)
SELECT number_id, lease_id, holder, 'release' FROM gone;

-- name: WorkCampaigns :many
-- What this number may claim from now: the claim statement's own gates, so that
-- no turn goes to a campaign or a zone that would give nothing.
SELECT c.id, c.priority, c.max_attempts, c.jitter, c.template, c.language, c.category, c.params, (c.cap_messages IS NOT NULL)::boolean AS capped,
    array_agg(z.zone ORDER BY z.zone)::smallint[] AS zones
FROM campaign_numbers cn JOIN campaigns c ON c.id = cn.campaign_id
JOIN campaign_zones z ON z.campaign_id = c.id AND z.opens_at <= now() AND z.closes_at > now()
WHERE cn.number_id = @number::text AND c.state = 'running' AND c.start_at <= now() AND coalesce(c.expire_at, 'infinity') > now() AND coalesce(c.paused_until, '-infinity') <= now()
  AND (cn.role = 'primary' OR fallback_floor(c.id) IS NOT NULL)
GROUP BY c.id ORDER BY c.priority DESC, c.id;

-- name: PauseNumbers :execrows
-- A throttle of the number, of its account, or of its app: the numbers that use
-- the same access token. A token of another file may be another app's.
-- A pause never shortens a longer one. What it taught is about the one number
-- that met it.
WITH hit AS MATERIALIZED (
    SELECT n.id FROM numbers o JOIN numbers n ON CASE @reach::text
        WHEN 'app' THEN n.token_file IS NOT DISTINCT FROM o.token_file
        WHEN 'waba' THEN n.waba_id = o.waba_id
        ELSE n.id = o.id END
    WHERE o.id = @number::text
    ORDER BY n.id FOR NO KEY UPDATE OF n
)
UPDATE numbers n SET paused_until = greatest(n.paused_until, now() + make_interval(secs => @pause_seconds::double precision)),
    learned_mps = CASE WHEN n.id = @number::text AND @learned_mps::double precision > 0 THEN @learned_mps::double precision ELSE n.learned_mps END,
    learned_ceiling = CASE WHEN n.id = @number::text AND @learned_mps::double precision > 0 THEN @learned_ceiling::double precision ELSE n.learned_ceiling END,
    learned_at = CASE WHEN n.id = @number::text AND @learned_mps::double precision > 0 THEN now() ELSE n.learned_at END
FROM hit WHERE n.id = hit.id;

-- name: HaltNumbers :execrows
-- Until an operator acts. The first reason stands: it is what went wrong.
-- One notice of all that were not stopped yet, about the one it was said of.
-- What was said of a message that was accepted before an operator let a number
-- send again is known to them.
WITH hit AS MATERIALIZED (
    SELECT n.id, n.enabled FROM numbers o JOIN numbers n ON CASE @reach::text
        WHEN 'app' THEN n.token_file IS NOT DISTINCT FROM o.token_file
        WHEN 'waba' THEN n.waba_id = o.waba_id
        ELSE n.id = o.id END
    WHERE o.id = @number::text AND coalesce(n.enabled_at, '-infinity') <= coalesce(sqlc.narg(told_at)::timestamptz, 'infinity')
    ORDER BY n.id FOR NO KEY UPDATE OF n
), moved AS (
    UPDATE numbers n SET enabled = false, stop_reason = CASE WHEN n.enabled THEN @reason::text ELSE coalesce(n.stop_reason, @reason::text) END
    FROM hit WHERE n.id = hit.id RETURNING n.id, hit.enabled AS was
), sending AS (
    SELECT DISTINCT c.name FROM moved JOIN campaign_numbers cn ON cn.number_id = moved.id JOIN campaigns c ON c.id = cn.campaign_id
    WHERE moved.was AND c.state = 'running' ORDER BY c.name LIMIT 50
), told AS (
    INSERT INTO notices (kind, subject, body)
    SELECT 'number.stopped', 'number:' || (array_agg(id ORDER BY id <> @number::text, id))[1], jsonb_build_object(
        'numbers', jsonb_agg(id ORDER BY id <> @number::text, id), 'reason', @reason::text,
        'campaigns', (SELECT coalesce(jsonb_agg(name ORDER BY name), '[]') FROM sending))
    FROM moved WHERE was HAVING count(*) > 0
)
SELECT id FROM moved;

-- name: HaltCampaigns :execrows
-- A pause that nobody asked for: it is confirmed as any other, and keeps its
-- reason. Of the campaign that it was said of, or of every one that sends its
-- template (templates are an account's) from a number of the same account, not of
-- one that merely falls back on it. What was said of a message from before the
-- operator's last word is known to them.
WITH hit AS MATERIALIZED (
    SELECT c.id FROM campaigns said JOIN campaigns c ON c.id = said.id OR (@reach::text = 'template'
        AND c.template = said.template AND c.language = said.language
        AND EXISTS (SELECT FROM numbers o JOIN numbers n ON n.waba_id = o.waba_id JOIN campaign_numbers cn ON cn.number_id = n.id
            WHERE o.id = @number::text AND cn.campaign_id = c.id AND cn.role = 'primary'))
    WHERE said.id = @campaign::bigint AND c.state = 'running'
      AND coalesce(c.control_at, '-infinity') <= coalesce(sqlc.narg(told_at)::timestamptz, 'infinity')
    ORDER BY c.id FOR NO KEY UPDATE OF c
), moved AS (
    UPDATE campaigns c SET state = 'pausing', state_reason = @reason::text, control_version = c.control_version + 1,
        control_at = now(), confirmed_at = NULL
    FROM hit WHERE c.id = hit.id AND c.state = 'running'
    RETURNING c.id, c.name
)
INSERT INTO notices (kind, subject, body)
SELECT 'campaign.stopped', 'campaign:' || id, jsonb_build_object('campaign', jsonb_build_object('id', id, 'name', name), 'reason', @reason::text)
FROM moved;

-- name: PauseCampaigns :execrows
-- What passes by itself: the campaign, or all that send its template, stays
-- running and is claimed from again when the time is over. A pause never
-- shortens a longer one.
WITH hit AS MATERIALIZED (
    SELECT c.id FROM campaigns said JOIN campaigns c ON c.id = said.id OR (@reach::text = 'template'
        AND c.template = said.template AND c.language = said.language
        AND EXISTS (SELECT FROM numbers o JOIN numbers n ON n.waba_id = o.waba_id JOIN campaign_numbers cn ON cn.number_id = n.id
            WHERE o.id = @number::text AND cn.campaign_id = c.id AND cn.role = 'primary'))
    WHERE said.id = @campaign::bigint AND c.state = 'running'
      AND coalesce(c.control_at, '-infinity') <= coalesce(sqlc.narg(told_at)::timestamptz, 'infinity')
    ORDER BY c.id FOR NO KEY UPDATE OF c
)
UPDATE campaigns c SET paused_until = greatest(c.paused_until, now() + make_interval(secs => @pause_seconds::double precision)), state_reason = @reason::text
FROM hit WHERE c.id = hit.id AND c.state = 'running';
