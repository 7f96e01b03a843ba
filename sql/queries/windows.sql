-- The hours at which campaigns may be sent. Go computes them, by its own zone
-- data; the claim compares instants.

-- name: WindowZones :many
-- The zones whose interval must be looked up: it is over, or will be before the
-- day is, of campaigns that are sent now, or may be. By campaign.
SELECT c.id AS campaign_id, z.zone, z.tz::text AS tz, z.opens_at, z.closes_at, c.send_window, now()::timestamptz AS now
FROM campaigns c JOIN campaign_zones z ON z.campaign_id = c.id
WHERE c.state IN ('scheduled', 'running', 'pausing', 'paused') AND c.send_window IS NOT NULL
  AND z.tz IS NOT NULL AND z.closes_at <= now() + interval '24 hours'
ORDER BY c.id, z.zone;

-- name: SetWindows :exec
-- Whoever computes an interval computes the same one, so that twice is once.
WITH new AS (
    SELECT unnest(@campaigns::bigint[]) AS campaign_id, unnest(@zones::smallint[]) AS zone,
        unnest(@opens::timestamptz[]) AS opens_at, unnest(@closes::timestamptz[]) AS closes_at
), mine AS MATERIALIZED (
    SELECT new.* FROM new JOIN campaign_zones z ON z.campaign_id = new.campaign_id AND z.zone = new.zone
    WHERE z.opens_at <> new.opens_at OR z.closes_at <> new.closes_at
    ORDER BY z.campaign_id, z.zone FOR NO KEY UPDATE OF z
)
UPDATE campaign_zones z SET opens_at = mine.opens_at, closes_at = mine.closes_at
FROM mine WHERE z.campaign_id = mine.campaign_id AND z.zone = mine.zone;

-- name: ZonesWaiting :many
-- Who waits in each zone of a campaign with a window, from the due index alone.
SELECT z.tz::text AS tz, z.opens_at, z.closes_at, (z.opens_at <= now() AND z.closes_at > now())::boolean AS open, (z.closes_at > now())::boolean AS fresh,
    (SELECT count(*) FROM recipients r WHERE r.campaign_id = z.campaign_id AND r.zone = z.zone AND r.due_at IS NOT NULL) AS waiting
FROM campaign_zones z WHERE z.campaign_id = @campaign::bigint AND z.tz IS NOT NULL
ORDER BY z.opens_at, z.tz;
