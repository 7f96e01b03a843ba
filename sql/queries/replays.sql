-- Dead letters: what failed, what we gave up, and what an operator makes of it.

-- name: DeadLetters :many
-- Among some ids of a campaign: recipients that failed or were given up, each
-- with what it came to, and in a campaign that holds also those nobody knows
-- about. From attempts and unknowns, so the cost grows with the trouble and not
-- with the audience. Every table is bound to the ids by itself, as in
-- ExportPage; params come last, for what is left alone. What is in hand is asked by
-- IN, which is hashed: by EXISTS each letter would read all that the fleet sends.
WITH ended AS MATERIALIZED (
    SELECT DISTINCT ON (a.recipient_id) a.recipient_id AS id, r.claim, r.status, a.code, a.title, a.at, r.number_id, r.replays, r.last_replay_id
    FROM attempts a JOIN recipients r ON r.id = a.recipient_id AND r.id BETWEEN @lo::bigint AND @hi::bigint AND r.campaign_id = @campaign::bigint
    WHERE a.recipient_id BETWEEN @lo::bigint AND @hi::bigint AND r.status IN ('dead', 'failed')
      AND CASE WHEN r.status = 'dead' THEN a.claim = r.claim ELSE a.failed END
    ORDER BY a.recipient_id, a.claim DESC
), doubted AS MATERIALIZED (
    SELECT r.id, r.claim, r.status, a.code, a.title, u.since AS at, r.number_id, r.replays, r.last_replay_id
    FROM campaigns c JOIN unknowns u ON u.recipient_id BETWEEN @lo::bigint AND @hi::bigint
    JOIN recipients r ON r.id = u.recipient_id AND r.campaign_id = c.id AND r.status = 'unknown'
    LEFT JOIN attempts a ON a.recipient_id = r.id AND a.claim = r.claim
    WHERE c.id = @campaign::bigint AND c.on_unknown = 'hold'
), letter AS (
    SELECT * FROM ended UNION ALL SELECT * FROM doubted
), booked AS MATERIALIZED (
    SELECT unnest(c.ids) AS id, unnest(c.fences) AS fence FROM claims c
)
SELECT l.id::bigint AS id, l.claim::int AS claim, l.status::text AS status, coalesce(l.code, 0)::int AS code, coalesce(l.title, '')::text AS title,
    l.at::timestamptz AS at, coalesce(l.number_id, '')::text AS number_id, l.replays::int AS replays, coalesce(l.last_replay_id::text, '')::text AS last_replay_id,
    p.line, p.phone, ((l.id, l.claim) IN (SELECT b.id, b.fence FROM booked b))::boolean AS in_hand
FROM letter l JOIN recipient_params p ON p.id = l.id
ORDER BY l.id;

-- name: OpenReplay :many
-- Begins a replay, or goes on with one: the same campaign and the same choice of
-- recipients, or no row. Force is on record with whoever used it.
WITH opened AS (
    INSERT INTO replays AS p (id, campaign_id, filter, forced, who)
    SELECT @id::uuid, c.id, @filter::jsonb, @force::boolean, @who::text FROM campaigns c WHERE c.id = @campaign::bigint
    ON CONFLICT (id) DO UPDATE SET forced = p.forced OR excluded.forced WHERE p.campaign_id = excluded.campaign_id AND p.filter = excluded.filter
    RETURNING p.campaign_id, p.moved
), noted AS (
    INSERT INTO audit (who, what, subject, body)
    SELECT @who::text, 'replay_forced', 'campaign:' || campaign_id, jsonb_build_object('replay', @id::uuid, 'filter', @filter::jsonb)
    FROM opened WHERE @force::boolean
)
SELECT moved FROM opened;

-- name: ReplayRecipients :one
-- Dead letters wait to be sent anew. It follows LockCampaign in one transaction,
-- so that a finish and a replay see each other. Each is still what the operator
-- was shown; it has not been moved by this replay before (twice is once), nor
-- more often than allowed; and unless forced it is in no lane's hands, and not
-- one whose message may have gone out; all that on a database that an operator
-- vouches for, since a restored one may have forgotten acceptances. The claim is bumped, so that nothing
-- that was said of the earlier one decides; its message is kept in attempts.
-- At a rate, recipients become due one after another, from the last one on.
WITH asked AS (
    SELECT unnest(@ids::bigint[]) AS id, unnest(@claims::int[]) AS claim, unnest(@statuses::text[])::recipient_status AS status
), booked AS MATERIALIZED (
    SELECT unnest(c.ids) AS id, unnest(c.fences) AS fence FROM claims c
), mine AS MATERIALIZED (
    SELECT r.id, r.claim, r.status AS was, r.message_id, r.number_id
    FROM asked x JOIN campaigns c ON c.id = @campaign::bigint AND c.state IN ('scheduled', 'running', 'pausing', 'paused', 'finished')
        AND coalesce(c.expire_at, 'infinity') > now() AND (SELECT i.cluster = cluster_identity() FROM instance i)
    JOIN recipients r ON r.id = x.id AND r.campaign_id = c.id AND r.claim = x.claim AND r.status = x.status
    WHERE r.status IN ('dead', 'failed') AND r.last_replay_id IS DISTINCT FROM @replay::uuid AND r.replays < @max_replays::int
      AND (@force::boolean OR (
          NOT EXISTS (SELECT FROM booked b WHERE b.id = r.id AND b.fence = r.claim)
          AND NOT (r.status = 'dead' AND EXISTS (SELECT FROM attempts a WHERE a.recipient_id = r.id AND a.claim = r.claim
              AND a.title IN ('unknown_outcome', 'closed_by_operator')))))
    ORDER BY r.id FOR NO KEY UPDATE OF r
), paced AS MATERIALIZED (
    SELECT m.*, greatest(now(), p.last_due + make_interval(secs => @gap_seconds::double precision))
        + make_interval(secs => (row_number() OVER (ORDER BY m.id) - 1) * @gap_seconds::double precision) AS due_at
    FROM mine m JOIN replays p ON p.id = @replay::uuid
), moved AS (
    UPDATE recipients r SET status = 'pending', due_at = m.due_at, claim = r.claim + 1, attempt = 0, replays = r.replays + 1, last_replay_id = @replay::uuid,
        message_id = NULL, error_code = NULL, accepted_at = NULL, sent_at = NULL, failed_at = NULL
    FROM paced m WHERE r.id = m.id AND r.claim = m.claim AND r.status IN ('dead', 'failed')
    RETURNING r.id, m.claim, m.was, m.message_id, m.number_id, m.due_at
), kept AS (
    INSERT INTO attempts (recipient_id, claim, number_id, message_id, failed)
    SELECT m.id, m.claim, m.number_id, m.message_id, m.was = 'failed' FROM moved m
    WHERE m.message_id IS NOT NULL AND NOT EXISTS (SELECT FROM attempts a WHERE a.recipient_id = m.id AND a.message_id = m.message_id)
    ON CONFLICT (recipient_id, claim) DO UPDATE SET message_id = excluded.message_id, failed = excluded.failed
), counted AS (
    INSERT INTO campaign_counts (campaign_id, status, n)
    SELECT @campaign::bigint, was, -count(*) FROM moved GROUP BY was
    UNION ALL SELECT @campaign::bigint, 'pending'::recipient_status, count(*) FROM moved HAVING count(*) > 0
), noted AS (
    UPDATE replays p SET moved = p.moved + m.n, last_due = m.last_due
    FROM (SELECT count(*) AS n, max(due_at) AS last_due FROM moved HAVING count(*) > 0) m WHERE p.id = @replay::uuid
), reopened AS (
    UPDATE campaigns SET state = 'running', finished_at = NULL, state_reason = NULL, paused_until = NULL, control_version = control_version + 1,
        control_at = now(), confirmed_at = NULL
    WHERE id = @campaign::bigint AND state = 'finished' AND EXISTS (SELECT FROM moved)
)
SELECT count(*) FROM moved;

-- name: Replays :many
-- Newest first.
SELECT p.id::text AS id, p.campaign_id, c.name AS campaign, p.filter, p.forced, p.who, p.at, p.moved, p.last_due
FROM replays p JOIN campaigns c ON c.id = p.campaign_id
WHERE @campaign::bigint = 0 OR p.campaign_id = @campaign::bigint
ORDER BY p.at DESC, p.id;

-- name: CloseUnknowns :one
-- An operator's word on outcomes that a campaign holds: given up, as the policy
-- would have done, and only with force sent again. A batch at a time.
WITH mine AS MATERIALIZED (
    SELECT r.id, r.claim FROM campaigns c JOIN campaign_ranges g ON g.campaign_id = c.id
    JOIN unknowns u ON u.recipient_id BETWEEN g.lo AND g.hi
    JOIN recipients r ON r.id = u.recipient_id AND r.claim = u.claim AND r.campaign_id = c.id AND r.status = 'unknown'
    WHERE c.id = @campaign::bigint AND c.on_unknown = 'hold' AND (SELECT i.cluster = cluster_identity() FROM instance i)
      AND u.since <= now() - make_interval(secs => @older_seconds::double precision)
      AND (@number::text = '' OR r.number_id = @number::text)
      AND (@phone::text = '' OR EXISTS (SELECT FROM recipient_params p WHERE p.id = r.id AND p.phone = @phone::text))
    ORDER BY r.id LIMIT 5000 FOR NO KEY UPDATE OF r
), moved AS (
    UPDATE recipients r SET status = 'dead' FROM mine WHERE r.id = mine.id AND r.claim = mine.claim AND r.status = 'unknown'
    RETURNING r.id, r.claim, r.campaign_id, r.number_id
), noted AS (
    INSERT INTO attempts (recipient_id, claim, number_id, title) SELECT id, claim, number_id, 'closed_by_operator' FROM moved
    ON CONFLICT (recipient_id, claim) DO UPDATE SET title = excluded.title, at = now()
), known AS (
    DELETE FROM unknowns u USING moved WHERE u.recipient_id = moved.id AND u.claim = moved.claim
), counted AS (
    INSERT INTO campaign_counts (campaign_id, status, n)
    SELECT campaign_id, 'unknown'::recipient_status, -count(*) FROM moved GROUP BY campaign_id
    UNION ALL SELECT campaign_id, 'dead'::recipient_status, count(*) FROM moved GROUP BY campaign_id
), audited AS (
    INSERT INTO audit (who, what, subject, body)
    SELECT @who::text, 'unknowns_closed', 'campaign:' || campaign_id, jsonb_build_object('rows', count(*)) FROM moved GROUP BY campaign_id
)
SELECT count(*) FROM moved;
