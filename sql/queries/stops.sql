-- The stop of everything, and its end. instance.stopped_at is the gate that every
-- claim reads; the pauses of the running campaigns are what its confirmation is
-- made of, so nothing is acknowledged in a second way.

-- name: StopEverything :exec
-- The lock makes starts that are under way end first, so that StopRunning, a
-- statement later, sees what they started. A stop that stands keeps who and why.
WITH stopped AS (
    UPDATE instance SET stopped_at = now(), stopped_by = @who::text, stop_reason = @reason::text WHERE stopped_at IS NULL RETURNING one
), noted AS (
    INSERT INTO audit (who, what, subject, body) SELECT @who::text, 'everything_stopped', 'everything', jsonb_build_object('reason', @reason::text) FROM stopped
)
INSERT INTO notices (kind, subject, body)
SELECT 'sending.stopped', 'everything', jsonb_build_object('who', @who::text, 'reason', @reason::text) FROM stopped;

-- name: StopRunning :execrows
WITH mine AS MATERIALIZED (
    SELECT c.id FROM campaigns c WHERE c.state = 'running' ORDER BY c.id FOR NO KEY UPDATE
)
UPDATE campaigns c SET state = 'pausing', stopped = true, state_reason = concat_ws(': ', 'everything is stopped', nullif(i.stop_reason, '')),
    control_version = c.control_version + 1, control_at = now(), confirmed_at = NULL
FROM mine, instance i WHERE c.id = mine.id AND c.state = 'running' AND i.stopped_at IS NOT NULL;

-- name: ReleaseEverything :one
-- What the stop paused goes on, and nothing else: what an operator paused before
-- or since stays paused, what was canceled stays canceled.
WITH released AS (
    UPDATE instance i SET stopped_at = NULL, stopped_by = NULL, stop_reason = NULL
    FROM (SELECT one, stopped_at FROM instance FOR NO KEY UPDATE) was WHERE i.one = was.one AND i.stopped_at IS NOT NULL
    RETURNING extract(epoch FROM now() - was.stopped_at) AS seconds
), mine AS MATERIALIZED (
    SELECT c.id FROM released CROSS JOIN campaigns c WHERE c.stopped AND c.state IN ('pausing', 'paused') ORDER BY c.id FOR NO KEY UPDATE OF c
), resumed AS (
    UPDATE campaigns c SET state = 'running', stopped = false, state_reason = NULL,
        control_version = c.control_version + 1, control_at = now(), confirmed_at = NULL
    FROM mine WHERE c.id = mine.id AND c.stopped AND c.state IN ('pausing', 'paused')
    RETURNING c.id
), unpaused AS (
    UPDATE campaign_controls k SET ended_at = now() FROM resumed WHERE k.campaign_id = resumed.id AND k.kind = 'pause' AND k.ended_at IS NULL
), noted AS (
    INSERT INTO audit (who, what, subject, body)
    SELECT @who::text, 'everything_released', 'everything', jsonb_build_object('seconds', round(seconds), 'campaigns', (SELECT count(*) FROM resumed)) FROM released
), told AS (
    INSERT INTO notices (kind, subject, body) SELECT 'sending.released', 'everything', jsonb_build_object('who', @who::text) FROM released
)
SELECT (SELECT count(*) FROM released)::bigint AS released, (SELECT count(*) FROM resumed)::bigint AS resumed;

-- name: StopStands :one
-- awaited: campaigns of which something may still go out.
SELECT i.stopped_at, coalesce(i.stopped_by, '')::text AS stopped_by, coalesce(i.stop_reason, '')::text AS reason,
    (SELECT count(*) FROM campaigns c WHERE c.stopped AND c.state IN ('pausing', 'paused'))::bigint AS campaigns,
    (SELECT count(*) FROM campaigns c WHERE c.state IN ('pausing', 'canceling') AND c.confirmed_at IS NULL)::bigint AS awaited
FROM instance i;

-- name: HoldStops :one
-- Before what would let a campaign run, in a statement of its own: a stop of
-- everything then comes wholly before or wholly after.
SELECT (i.stopped_at IS NULL)::boolean AS free FROM instance i FOR SHARE;
