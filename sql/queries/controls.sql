-- Pause and cancel, confirmed. The claim reads the campaign's state, so nothing
-- is claimed from the order's commit on; what lanes hold already is what the
-- confirmation waits for.

-- name: PauseCampaign :execrows
-- A scheduled campaign has nothing that could go out: it is paused at once. One
-- that stands still with everything else, or by an operator's earlier word, does
-- so already: only until when may change. What stopped by itself keeps its
-- reason, and goes on only when told to.
UPDATE campaigns SET state = CASE state WHEN 'running' THEN 'pausing' WHEN 'scheduled' THEN 'paused' ELSE state END, state_reason = 'paused by the operator',
    control_version = control_version + CASE WHEN state IN ('pausing', 'paused') THEN 0 ELSE 1 END,
    control_at = CASE WHEN state IN ('pausing', 'paused') THEN control_at ELSE now() END,
    confirmed_at = CASE WHEN state IN ('pausing', 'paused') THEN confirmed_at WHEN state = 'running' THEN NULL ELSE now() END,
    stopped = false, resume_at = sqlc.narg(until)::timestamptz
WHERE id = @campaign::bigint AND (state IN ('running', 'scheduled')
    OR state IN ('pausing', 'paused') AND (stopped OR state_reason = 'paused by the operator' AND resume_at IS DISTINCT FROM sqlc.narg(until)::timestamptz));

-- name: ResumesDue :many
-- Paused until a time that has come. Those that could not go on are left out.
SELECT c.id FROM campaigns c JOIN instance i ON i.stopped_at IS NULL
WHERE c.state IN ('pausing', 'paused') AND c.resume_at <= now() AND coalesce(c.expire_at, 'infinity') > now() ORDER BY c.id;

-- name: CancelCampaign :execrows
-- What neither runs nor is being paused is silent already, a paused one by its
-- confirmation.
UPDATE campaigns SET state = 'canceling', state_reason = 'canceled by the operator', control_version = control_version + 1,
    control_at = now(), confirmed_at = CASE WHEN state IN ('running', 'pausing') THEN NULL ELSE now() END
WHERE id = @campaign::bigint AND state IN ('draft', 'scheduled', 'running', 'pausing', 'paused');

-- name: WorkControls :many
-- What this lease has still to acknowledge.
SELECT c.id, c.control_version FROM campaign_numbers cn JOIN campaigns c ON c.id = cn.campaign_id
WHERE cn.number_id = @number::text AND c.state IN ('pausing', 'canceling') AND c.confirmed_at IS NULL
  AND NOT EXISTS (SELECT FROM campaign_acks a WHERE a.campaign_id = c.id AND a.number_id = cn.number_id
      AND a.lease_id = @lease::uuid AND a.control_version = c.control_version)
ORDER BY c.id;

-- name: AcknowledgeControl :execrows
-- A lane says that nothing of a campaign can go out under its lease any more,
-- as long as the order of that version stands. The campaign's row is not locked:
-- an order that changes meanwhile has another version, for which this says
-- nothing. One that was long on its way replaces no later one.
WITH lease AS MATERIALIZED (
    SELECT number_id, lease_id FROM number_leases
    WHERE number_id = @number::text AND lease_id = @lease::uuid AND NOT released AND ready_at <= now() AND expires_at > now()
    FOR KEY SHARE
)
INSERT INTO campaign_acks (campaign_id, number_id, lease_id, control_version)
SELECT c.id, lease.number_id, lease.lease_id, c.control_version FROM lease
JOIN campaigns c ON c.id = @campaign::bigint AND c.control_version = @version::bigint AND c.state IN ('pausing', 'canceling')
JOIN campaign_numbers cn ON cn.campaign_id = c.id AND cn.number_id = lease.number_id
ON CONFLICT (campaign_id, number_id) DO UPDATE SET lease_id = excluded.lease_id, control_version = excluded.control_version, at = excluded.at
WHERE campaign_acks.lease_id <> excluded.lease_id OR campaign_acks.control_version < excluded.control_version;

-- name: ConfirmControls :many
-- Confirms every order that nobody is awaited for, and says who is awaited for
-- the others. A number is awaited unless its lease of today has acknowledged
-- this version, or it can no longer send: never leased; released, or seen to have
-- run out longer than the quarantine ago, and its own predecessor's quarantine
-- over too. A lease granted after the order is awaited as well: its predecessor
-- may be sending until ready_at.
--   asked    the version as of this snapshot, by which the acks are judged
--   quiet    the same version under the lock, or the order has changed meanwhile
--            and what was seen says nothing about the new one. A database that
--            nobody vouches for may have forgotten a resume: it confirms nothing
--   watched  starts the quarantine of a lease that has run out, and its owner's
--            next heartbeat ends it: one look would take a database whose clock
--            jumps ahead for a dead owner. Whoever holds the row is not silent
WITH asked AS MATERIALIZED (
    SELECT c.id, c.state, c.control_version FROM campaigns c WHERE c.state IN ('pausing', 'canceling') AND c.confirmed_at IS NULL
), awaited AS MATERIALIZED (
    SELECT asked.id, asked.state, l.number_id, l.holder, l.expires_at <= now() AND l.silent_at IS NULL AS unwatched FROM asked
    JOIN campaign_numbers cn ON cn.campaign_id = asked.id
    JOIN number_leases l ON l.number_id = cn.number_id AND l.lease_id IS NOT NULL
    WHERE NOT EXISTS (SELECT FROM campaign_acks a WHERE a.campaign_id = asked.id AND a.number_id = l.number_id
            AND a.lease_id = l.lease_id AND a.control_version = asked.control_version)
      AND (coalesce(l.ready_at, 'infinity') > now() OR (NOT l.released
            AND (l.expires_at > now() OR coalesce(l.silent_at, 'infinity') + make_interval(secs => @quarantine_seconds::double precision) > now())))
), watched AS (
    UPDATE number_leases l SET silent_at = now() FROM (
        SELECT s.number_id FROM number_leases s WHERE s.number_id IN (SELECT w.number_id FROM awaited w WHERE w.unwatched)
            AND s.expires_at <= now() AND s.silent_at IS NULL ORDER BY s.number_id FOR NO KEY UPDATE SKIP LOCKED) run_out
    WHERE l.number_id = run_out.number_id
), quiet AS MATERIALIZED (
    SELECT c.id FROM asked JOIN campaigns c ON c.id = asked.id AND c.state = asked.state AND c.control_version = asked.control_version
    WHERE c.confirmed_at IS NULL AND NOT EXISTS (SELECT FROM awaited w WHERE w.id = asked.id)
      AND (SELECT i.cluster = cluster_identity() FROM instance i)
    ORDER BY c.id FOR NO KEY UPDATE OF c
), confirmed AS (
    UPDATE campaigns c SET state = CASE WHEN c.state = 'pausing' THEN 'paused' ELSE c.state END, confirmed_at = greatest(now(), c.control_at)
    FROM quiet WHERE c.id = quiet.id
    RETURNING c.id, c.state, c.state_reason, c.control_version, c.control_at, c.confirmed_at
), noted AS (
    INSERT INTO campaign_controls (campaign_id, control_version, kind, reason, asked_at, confirmed_at)
    SELECT id, control_version, CASE WHEN state = 'paused' THEN 'pause' ELSE 'cancel' END, state_reason, control_at, confirmed_at FROM confirmed
)
SELECT id::bigint AS campaign_id, state::text AS state, extract(epoch FROM confirmed_at - control_at)::double precision AS seconds,
    ''::text AS number_id, ''::text AS holder FROM confirmed
UNION ALL SELECT id, state, 0, number_id, coalesce(holder, '') FROM awaited
ORDER BY 1, 4;

-- name: ControlTimes :many
-- How many of them took at most so long, and how long all of these together.
SELECT b.most::double precision AS most, count(c.campaign_id) AS n,
    coalesce(sum(extract(epoch FROM c.confirmed_at - c.asked_at)), 0)::double precision AS total_seconds
FROM (SELECT unnest(@bounds::double precision[]) AS most) b
LEFT JOIN campaign_controls c ON extract(epoch FROM c.confirmed_at - c.asked_at) <= b.most
GROUP BY b.most ORDER BY b.most;
