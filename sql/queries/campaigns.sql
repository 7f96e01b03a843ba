-- A campaign's life as its operator moves it.

-- name: CreateCampaign :many
-- The campaign with its numbers and its zone: with a window it is closed until
-- the hours have been looked up, and an import adds those of its people instead. A name in use gives no row;
-- an unknown number breaks the foreign key, and nothing is made.
WITH made AS (
    INSERT INTO campaigns (name, template, language, category, params, columns, priority, start_at, expire_at, on_unknown, max_attempts, jitter,
        absent_days, cap_messages, cap_days, fallback_wait, fallback_after, send_window)
    VALUES (@name::text, @template::text, @language::text, @category::text, @params::jsonb, @columns::text[], @priority::int,
        sqlc.narg(start_at)::timestamptz, sqlc.narg(expire_at)::timestamptz, @on_unknown::text, @max_attempts::int, @jitter::text,
        @absent_days::int, nullif(@cap_messages::int, 0), nullif(@cap_days::int, 0),
        make_interval(secs => @fallback_wait_seconds::double precision), nullif(@fallback_after::int, 0), sqlc.narg(send_window)::jsonb)
    ON CONFLICT (name) DO NOTHING RETURNING id
), sender AS (
    INSERT INTO campaign_numbers (number_id, campaign_id, role)
    SELECT unnest(@numbers::text[]), made.id, unnest(@roles::text[]) FROM made
), zoned AS (
    INSERT INTO campaign_zones (campaign_id, tz, closes_at)
    SELECT id, sqlc.narg(tz)::text, CASE WHEN sqlc.narg(send_window)::jsonb IS NULL THEN 'infinity' ELSE '-infinity' END::timestamptz
    FROM made WHERE NOT @zoned::boolean
)
SELECT id FROM made;

-- name: UnknownNumbers :many
SELECT x.id::text FROM (SELECT unnest(@numbers::text[]) AS id) x
WHERE NOT EXISTS (SELECT FROM numbers n WHERE n.id = x.id) ORDER BY x.id;

-- name: Campaigns :many
-- By name or id (name first), by state, or all; newest first.
SELECT c.id, c.name, c.template, c.language, c.category, c.params, c.columns, c.state,
    (CASE WHEN c.state = 'running' AND coalesce(c.paused_until, '-infinity') <= now() THEN '' ELSE coalesce(c.state_reason, '') END)::text AS state_reason,
    (CASE WHEN c.state = 'running' THEN greatest(extract(epoch FROM c.paused_until - now()), 0) ELSE 0 END)::double precision AS paused_seconds,
    c.start_at, c.started_at, c.finished_at, c.expire_at, c.control_at, c.confirmed_at, c.stopped, c.resume_at, c.priority, c.on_unknown, c.max_attempts, c.jitter, c.created_at,
    c.absent_days, coalesce(c.cap_messages, 0)::int AS cap_messages, coalesce(c.cap_days, 0)::int AS cap_days,
    extract(epoch FROM c.fallback_wait)::double precision AS fallback_wait_seconds, coalesce(c.fallback_after, 0)::int AS fallback_after, c.send_window,
    ARRAY(SELECT cn.number_id FROM campaign_numbers cn WHERE cn.campaign_id = c.id ORDER BY cn.role DESC, cn.number_id)::text[] AS numbers,
    ARRAY(SELECT cn.role FROM campaign_numbers cn WHERE cn.campaign_id = c.id ORDER BY cn.role DESC, cn.number_id)::text[] AS roles,
    coalesce(i.file, '')::text AS file, coalesce(i.rows_read, 0)::bigint AS rows_read, coalesce(i.accepted, 0)::bigint AS accepted,
    coalesce(i.rejected, 0)::bigint AS rejected, coalesce(i.duplicate, 0)::bigint AS duplicate, coalesce(i.defaulted, 0)::bigint AS defaulted,
    i.done_at, coalesce(t.said, '')::text AS template_said, coalesce(t.said_bears, '')::text AS template_bears, t.said_at AS template_said_at
FROM campaigns c LEFT JOIN campaign_imports i ON i.campaign_id = c.id
LEFT JOIN LATERAL (SELECT t.said, t.said_bears, t.said_at FROM campaign_numbers cn JOIN numbers n ON n.id = cn.number_id
    JOIN templates t ON t.waba_id = n.waba_id AND t.name = c.template AND t.language = c.language
    WHERE cn.campaign_id = c.id ORDER BY t.said_at DESC, t.said_bears = 'stop' DESC LIMIT 1) t ON true
WHERE (@ref::text = '' OR c.name = @ref::text OR c.id = @id::bigint)
  AND (cardinality(@states::text[]) = 0 OR c.state = ANY (@states::text[]))
ORDER BY c.name = @ref::text DESC, c.id DESC;

-- name: StartCampaign :many
-- Runs a campaign that is in one of the given states, or schedules it when its
-- time is still to come. Whatever it refuses (another state, an unfinished or
-- empty import, a time that has run out, a stop of everything, and with due a pause
-- that is not over) gives no row. The
-- new version makes every acknowledgement of a pause that is on its way void.
-- free: a stop that is under way is waited for, or waits and sees this campaign.
WITH free AS MATERIALIZED (
    SELECT i.one FROM instance i WHERE i.stopped_at IS NULL FOR SHARE
), asked AS MATERIALIZED (
    SELECT c.id, c.state, (NOT @at_once::boolean AND coalesce(c.start_at, now()) > now()) AS later
    FROM free CROSS JOIN campaigns c WHERE c.id = @id::bigint FOR NO KEY UPDATE OF c
), moved AS (
    UPDATE campaigns c SET
        state = CASE WHEN asked.later THEN 'scheduled' ELSE 'running' END,
        start_at = CASE WHEN asked.later THEN c.start_at ELSE least(c.start_at, now()) END,
        started_at = CASE WHEN asked.later THEN c.started_at ELSE coalesce(c.started_at, now()) END,
        state_reason = NULL, paused_until = NULL, control_version = c.control_version + 1, control_at = now(), confirmed_at = NULL, stopped = false, resume_at = NULL
    FROM asked
    WHERE c.id = asked.id AND c.state = ANY (@states::text[]) AND (NOT @due::boolean OR c.resume_at <= now())
      AND coalesce(c.expire_at, 'infinity') > greatest(now(), CASE WHEN asked.later THEN c.start_at END)
      AND EXISTS (SELECT FROM campaign_imports i WHERE i.campaign_id = c.id AND i.accepted > 0)
    RETURNING asked.state AS was, c.state, c.start_at, c.id, c.name
), unpaused AS (
    UPDATE campaign_controls k SET ended_at = now() FROM moved WHERE k.campaign_id = moved.id AND k.kind = 'pause' AND k.ended_at IS NULL
), told AS (
    INSERT INTO notices (kind, subject, body)
    SELECT 'campaign.resumed', 'campaign:' || id, jsonb_build_object('campaign', jsonb_build_object('id', id, 'name', name)) FROM moved
    WHERE 'campaign.stopped' = (SELECT n.kind FROM notices n WHERE n.subject = 'campaign:' || moved.id
        AND n.kind IN ('campaign.stopped', 'campaign.resumed') ORDER BY n.id DESC LIMIT 1)
)
SELECT was, state, start_at FROM moved;

-- name: MarkScheduledStart :one
-- The scheduled hour has come. Nothing else is started by it: a paused or
-- finished campaign stays as it is, and a stop of everything comes first.
WITH free AS MATERIALIZED (
    SELECT i.one FROM instance i WHERE i.stopped_at IS NULL FOR SHARE
), moved AS (
    UPDATE campaigns c SET state = 'running', started_at = coalesce(c.started_at, now()), control_version = c.control_version + 1
    FROM free WHERE c.id = @id::bigint AND c.state = 'scheduled' AND c.start_at <= now()
    RETURNING c.id
)
SELECT EXISTS (SELECT FROM moved)::boolean AS started,
    coalesce((SELECT extract(epoch FROM c.start_at - now()) FROM campaigns c
        WHERE c.id = @id::bigint AND c.state = 'scheduled' AND c.start_at > now()), 0)::double precision AS wait_seconds;

-- name: CampaignBusy :one
-- Cheap signs of unsettled rows, each from an index or a small table: something
-- waits, something is unknown, something is in a lane's hands. False proves
-- nothing; the recount does. The order makes the planner use the due index,
-- where it would else expect to meet a waiting row early in the table, and
-- OFFSET 0 the primary key, where it would else hash all recipients. vouched: on
-- a database that nobody vouches for, nothing is expired or finished.
SELECT ((SELECT r.due_at FROM recipients r WHERE r.campaign_id = @campaign::bigint AND r.due_at IS NOT NULL
        ORDER BY r.zone, r.due_at DESC, r.id LIMIT 1) IS NOT NULL)::boolean AS waiting,
    EXISTS (SELECT FROM campaigns c WHERE c.id = @campaign::bigint AND campaign_ends(c.state, c.expire_at, c.confirmed_at))::boolean AS ends,
    (EXISTS (SELECT FROM campaign_ranges g JOIN unknowns u ON u.recipient_id BETWEEN g.lo AND g.hi
        CROSS JOIN LATERAL (SELECT 1 FROM recipients r WHERE r.id = u.recipient_id AND r.status = 'unknown' OFFSET 0) r
        WHERE g.campaign_id = @campaign::bigint)
    OR EXISTS (SELECT FROM campaign_ranges g JOIN (SELECT unnest(c.ids) AS id FROM claims c) x ON x.id BETWEEN g.lo AND g.hi
        CROSS JOIN LATERAL (SELECT 1 FROM recipients r WHERE r.id = x.id AND r.status = 'sending' OFFSET 0) r
        WHERE g.campaign_id = @campaign::bigint))::boolean AS called,
    (SELECT i.cluster = cluster_identity() FROM instance i)::boolean AS vouched;

-- name: LockCampaign :many
-- A statement of its own, so that what looks next has a snapshot from under
-- the lock: a replay and a finish see each other.
SELECT c.state, campaign_ends(c.state, c.expire_at, c.confirmed_at)::boolean AS ends, coalesce(c.expire_at <= now(), false)::boolean AS expired
FROM campaigns c WHERE c.id = @id::bigint FOR NO KEY UPDATE;

-- name: EndRecipients :exec
-- What waits among some ids of a campaign that ends. Whoever gives a row back
-- later makes it wait again: repeat until nothing is unsettled. Before a cancel
-- is confirmed nothing is touched: what a lane still holds may go out.
WITH mine AS MATERIALIZED (
    SELECT r.id, CASE WHEN c.state = 'canceling' THEN 'canceled' ELSE 'expired' END::recipient_status AS verdict
    FROM campaigns c JOIN recipients r ON r.id BETWEEN @lo::bigint AND @hi::bigint AND r.campaign_id = c.id AND r.status = 'pending'
    WHERE c.id = @campaign::bigint AND campaign_ends(c.state, c.expire_at, c.confirmed_at)
      AND (SELECT i.cluster = cluster_identity() FROM instance i)
    ORDER BY r.id FOR NO KEY UPDATE OF r
), moved AS (
    UPDATE recipients r SET status = mine.verdict, due_at = NULL FROM mine WHERE r.id = mine.id AND r.status = 'pending'
    RETURNING r.status
), counted AS (
    INSERT INTO campaign_counts (campaign_id, status, n)
    SELECT @campaign::bigint, 'pending'::recipient_status, -count(*) FROM moved HAVING count(*) > 0
    UNION ALL SELECT @campaign::bigint, status, count(*) FROM moved GROUP BY status
)
SELECT FROM moved;

-- name: RecountCampaign :one
-- Counts the rows and appends to the log of counts what it lacks, in one
-- snapshot: deltas and folds that run at the same time stay right, because
-- nothing is replaced. Returns how many rows are not settled.
WITH actual AS MATERIALIZED (
    SELECT r.status, count(*) AS n FROM campaign_ranges g JOIN recipients r ON r.id BETWEEN g.lo AND g.hi
    WHERE g.campaign_id = @campaign::bigint AND r.campaign_id = @campaign::bigint GROUP BY r.status
), shown AS (
    SELECT c.status, sum(c.n)::bigint AS n FROM campaign_counts c WHERE c.campaign_id = @campaign::bigint GROUP BY c.status
), mended AS (
    INSERT INTO campaign_counts (campaign_id, status, n)
    SELECT @campaign::bigint, status, coalesce(a.n, 0) - coalesce(s.n, 0) FROM actual a FULL JOIN shown s USING (status)
    WHERE coalesce(a.n, 0) <> coalesce(s.n, 0)
)
SELECT coalesce(sum(actual.n) FILTER (WHERE actual.status <= 'unknown'), 0)::bigint AS unsettled FROM actual;

-- name: FinishCampaign :execrows
-- After a recount, so that the notice tells what is.
WITH ended AS (
    UPDATE campaigns c SET state = CASE WHEN c.state = 'canceling' THEN 'canceled' ELSE 'finished' END,
        finished_at = now(), control_version = c.control_version + 1
    WHERE c.id = @id::bigint AND (c.state = 'running' OR campaign_ends(c.state, c.expire_at, c.confirmed_at))
      AND (SELECT i.cluster = cluster_identity() FROM instance i)
    RETURNING c.id, c.name, c.state
), counts AS (
    SELECT k.status, sum(k.n) AS n FROM campaign_counts k WHERE k.campaign_id = @id::bigint GROUP BY k.status HAVING sum(k.n) <> 0
)
INSERT INTO notices (kind, subject, body)
SELECT CASE WHEN state = 'canceled' THEN 'campaign.canceled' WHEN EXISTS (SELECT FROM counts WHERE status = 'expired') THEN 'campaign.expired' ELSE 'campaign.finished' END,
    'campaign:' || id, jsonb_build_object('campaign', jsonb_build_object('id', id, 'name', name),
        'counts', (SELECT coalesce(jsonb_object_agg(status, n), '{}') FROM counts))
FROM ended;

-- name: CondemnCampaign :execrows
-- A drop's first step: from here on it can neither start nor be resumed, so a
-- drop that was cut short can only be dropped again.
WITH doomed AS (
    UPDATE campaigns SET state = 'importing', state_reason = 'being dropped'
    WHERE id = @id::bigint AND state IN ('importing', 'draft') RETURNING id
), forgotten AS (
    DELETE FROM campaign_imports i USING doomed WHERE i.campaign_id = doomed.id
)
SELECT id FROM doomed;

-- name: CampaignRanges :many
SELECT lo, hi FROM campaign_ranges WHERE campaign_id = @campaign::bigint ORDER BY lo;

-- name: DropRecipients :exec
WITH gone AS (
    DELETE FROM recipients r WHERE r.id BETWEEN @lo::bigint AND @hi::bigint AND r.campaign_id = @campaign::bigint
)
DELETE FROM recipient_params p WHERE p.id BETWEEN @lo::bigint AND @hi::bigint AND p.campaign_id = @campaign::bigint;

-- name: DropCampaign :execrows
WITH counted AS (
    DELETE FROM campaign_counts n WHERE n.campaign_id = @id::bigint
)
DELETE FROM campaigns c WHERE c.id = @id::bigint AND c.state = 'importing' AND c.state_reason = 'being dropped';
