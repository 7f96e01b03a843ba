-- Claiming and what undoes it.

-- name: ClaimRecipients :many
-- The one gate: lease, number, breakers, campaign, zone and suppression are all
-- in this statement, so that no check can be forgotten or come too early.
--   lease   heartbeats pass, a takeover waits, a stale owner gets nothing
--   gate    host before number; a missing breaker row is a closed gate, and so
--           is one that is forced open, whoever holds the other's probe
--   slice   floor is how many attempts must have been spent: none, unless a
--           fallback number asks whose campaign has a primary that is able
--   zone    closed so early that the last call is written while it is open
--   due     the literal LIMIT 500 keeps the planner from reading the whole
--           table; LIMIT NULL would be no limit, hence the coalesces. A probe
--           is one row, of those that wait longest: whoever became due last has
--           most likely failed in this very outage, and one person whose message
--           always fails would be asked again and again whether it is over.
--           Below a floor of more than 0 lie all the rows that nobody tried: head
--           keeps such a claim from reading more than the thousand that became
--           due last
--   twin    a person's second row and further ones in this batch
--   taken   rechecks pending on the locked row; spends the attempt. Who has opted
--           out, is not on WhatsApp or has had enough is settled, with the reason;
--           who must be left in peace for a while is pending again, due when that
--           is over, with nothing spent. listed: one probe tells all of it, and
--           OFFSET 0 keeps the planner from making it once per mention. had: for
--           campaigns with a cap alone, whose slices are empty unless the caller
--           holds LockCaps: what another claim takes of the same persons at the
--           same time could not be seen. A message under way may yet fail, so it
--           only makes wait
--   told    why a row was settled
--   booked  what a dead owner leaves behind; dues lets a give-back restore due_at
WITH lease AS MATERIALIZED (
    SELECT number_id FROM number_leases
    WHERE number_id = @number::text AND lease_id = @lease::uuid AND NOT released AND ready_at <= now() AND expires_at > now()
    FOR KEY SHARE
), gate AS MATERIALIZED (
    SELECT n.waba_id FROM lease JOIN numbers n ON n.id = lease.number_id
    WHERE n.enabled AND coalesce(n.paused_until, '-infinity') <= now()
      AND (SELECT i.cluster = cluster_identity() AND i.stopped_at IS NULL FROM instance i)
      AND (SELECT count(*) FROM breakers b WHERE b.scope IN ('host', 'number:' || @number::text)) = 2
      AND (SELECT b.state = 'closed' OR (b.state = 'half_open' AND b.probe_token::text = @probe::text AND b.probe_until > now())
           FROM breakers b WHERE b.scope IN ('host', 'number:' || @number::text)
           ORDER BY b.state = 'closed', b.scope LIMIT 1)
      AND NOT EXISTS (SELECT FROM breakers b WHERE b.scope IN ('host', 'number:' || @number::text) AND b.state = 'open' AND b.forced_until > now())
), ask AS (
    SELECT unnest(@campaigns::bigint[]) AS campaign_id, unnest(@zones::smallint[]) AS zone,
        unnest(@shares::int[]) AS n, unnest(@turns::int[]) AS turn
), slice AS MATERIALIZED (
    SELECT a.campaign_id, a.zone, a.n, c.category, c.absent_days, c.cap_messages, c.cap_days, gate.waba_id,
        CASE WHEN cn.role = 'primary' THEN 0 ELSE fallback_floor(c.id) END AS floor
    FROM gate CROSS JOIN ask a
    JOIN campaigns c ON c.id = a.campaign_id AND c.state = 'running' AND c.start_at <= now() AND coalesce(c.expire_at, 'infinity') > now() AND coalesce(c.paused_until, '-infinity') <= now()
        AND (c.cap_messages IS NULL OR @capped::boolean)
    JOIN campaign_numbers cn ON cn.campaign_id = c.id AND cn.number_id = @number::text
    JOIN campaign_zones z ON z.campaign_id = a.campaign_id AND z.zone = a.zone AND z.opens_at <= now() AND z.closes_at > now() + make_interval(secs => @fresh_seconds::double precision)
    ORDER BY c.priority DESC, a.turn
), due AS MATERIALIZED (
    SELECT q.* FROM (
        SELECT d.id, d.due_at, d.replays, slice.category, slice.absent_days, slice.cap_messages, slice.cap_days, slice.waba_id FROM slice CROSS JOIN LATERAL (
            SELECT r.id, r.due_at, r.replays FROM recipients r
            WHERE r.campaign_id = slice.campaign_id AND r.zone = slice.zone AND r.due_at <= now()
              AND r.due_at <= coalesce((SELECT o.due_at FROM recipients o
                WHERE @probe::text <> '' AND slice.floor = 0 AND o.campaign_id = slice.campaign_id AND o.zone = slice.zone AND o.due_at IS NOT NULL
                ORDER BY o.due_at, o.id DESC LIMIT 1), 'infinity')
              AND r.attempt >= slice.floor AND r.due_at > coalesce((SELECT h.due_at FROM recipients h
                WHERE slice.floor > 0 AND h.campaign_id = slice.campaign_id AND h.zone = slice.zone AND h.due_at <= now()
                ORDER BY h.due_at DESC, h.id OFFSET 1000 LIMIT 1), '-infinity')
            ORDER BY r.due_at DESC, r.id LIMIT coalesce(slice.n, 0) FOR NO KEY UPDATE SKIP LOCKED) d
        WHERE slice.floor IS NOT NULL
        LIMIT coalesce(least(@free::int, CASE WHEN @probe::text <> '' THEN 1 END), 0)) q
    LIMIT 500
), twin AS MATERIALIZED (
    SELECT w.id, w.ahead FROM (SELECT due.id, row_number() OVER (PARTITION BY p.phone, due.category ORDER BY due.id) - 1 AS ahead
        FROM due CROSS JOIN LATERAL (SELECT p.phone FROM recipient_params p WHERE p.id = due.id OFFSET 0) p WHERE @capped::boolean) w WHERE w.ahead > 0
), taken AS (
    UPDATE recipients r SET due_at = CASE WHEN stop.why IS NULL THEN stop.wait END,
        claim = r.claim + CASE WHEN stop.why IS NULL AND stop.wait IS NOT NULL THEN 0 ELSE 1 END,
        number_id = CASE WHEN stop.why IS NULL AND stop.wait IS NOT NULL THEN r.number_id ELSE @number::text END,
        attempt = r.attempt + CASE WHEN stop.why IS NULL AND stop.wait IS NULL THEN 1 ELSE 0 END,
        error_code = CASE WHEN stop.why IS NULL THEN r.error_code END,
        status = CASE WHEN stop.why IS NOT NULL THEN 'suppressed' WHEN stop.wait IS NOT NULL THEN 'pending' ELSE 'sending' END::recipient_status
    FROM due JOIN recipient_params p ON p.id = due.id LEFT JOIN twin ON twin.id = due.id
    CROSS JOIN LATERAL (
        SELECT min(CASE s.kind WHEN 'suppress' THEN 1 WHEN 'stop' THEN 2 WHEN 'absent' THEN 3 END) AS kind, max(s.until) FILTER (WHERE s.kind = 'wait') AS wait
        FROM suppressions s WHERE s.phone = p.phone AND s.until > now() AND s.scope IN ('all', due.category,
            'waba:' || due.waba_id, 'waba:' || due.waba_id || ':' || due.category, 'number:' || @number::text)
          AND (s.kind <> 'absent' OR (due.replays = 0 AND s.at > now() - make_interval(days => due.absent_days) AND NOT EXISTS (
            SELECT FROM (SELECT q.id FROM recipient_params q WHERE q.phone = p.phone ORDER BY q.campaign_id DESC LIMIT 100) q
            CROSS JOIN LATERAL (SELECT FROM recipients x WHERE x.id = q.id AND x.delivered_at > s.at OFFSET 0) x))) OFFSET 0) listed
    CROSS JOIN LATERAL (
        SELECT count(*) FILTER (WHERE x.status <> 'sending') AS done, count(*) FILTER (WHERE x.status = 'sending') AS going
        FROM (SELECT q.id FROM recipient_params q WHERE @capped::boolean AND due.cap_messages IS NOT NULL AND q.phone = p.phone ORDER BY q.campaign_id DESC LIMIT 100) q
        CROSS JOIN LATERAL (SELECT x.status FROM recipients x JOIN campaigns k ON k.id = x.campaign_id AND k.category = 'marketing'
            WHERE x.id = q.id AND x.id <> due.id AND (x.status IN ('sending', 'unknown') OR (x.status >= 'accepted' AND x.status <> 'failed'
                AND coalesce(x.accepted_at, x.sent_at, x.delivered_at, x.read_at, now()) > now() - make_interval(days => due.cap_days))) OFFSET 0) x OFFSET 0) had
    CROSS JOIN LATERAL (
        SELECT CASE WHEN listed.kind = 1 THEN 'opted_out' WHEN listed.kind = 2 THEN 'said_stop' WHEN listed.kind = 3 THEN 'not_on_whatsapp'
                WHEN had.done >= due.cap_messages THEN 'frequency_cap' END AS why,
            greatest(listed.wait, CASE WHEN had.done + had.going + coalesce(twin.ahead, 0) >= due.cap_messages THEN now() + interval '10 seconds' END) AS wait OFFSET 0) stop
    WHERE r.id = due.id AND r.status = 'pending'
    RETURNING r.id, r.campaign_id, r.claim, r.attempt, r.status, coalesce(r.error_code, 0) AS code, due.due_at, p.phone, p.params, stop.why
), told AS (
    INSERT INTO attempts (recipient_id, claim, number_id, title) SELECT id, claim, @number::text, why FROM taken WHERE status = 'suppressed'
), booked AS (
    INSERT INTO claims (number_id, lease_id, seq, ids, fences, dues)
    SELECT @number::text, @lease::uuid, @seq::bigint, array_agg(id ORDER BY id), array_agg(claim ORDER BY id), array_agg(due_at ORDER BY id)
    FROM taken WHERE status = 'sending' HAVING count(*) > 0
), counted AS (
    INSERT INTO campaign_counts (campaign_id, status, n)
    SELECT campaign_id, 'pending'::recipient_status, -count(*) FROM taken WHERE status <> 'pending' GROUP BY campaign_id
    UNION ALL SELECT campaign_id, status, count(*) FROM taken WHERE status <> 'pending' GROUP BY campaign_id, status
)
SELECT id, campaign_id, claim, attempt, status::text AS status, code::int AS code, due_at, phone, params FROM taken ORDER BY id;

-- name: LockCaps :exec
-- Runs before ClaimRecipients in the same implicit transaction: claims that
-- count messages to a person come one after the other, across the fleet.
SELECT pg_advisory_xact_lock(hashtextextended('weir.caps', 0));

-- name: GiveBackClaims :one
-- Claim calls of my own lease that returned an error may have committed: what
-- they took was never handed out, so it goes back with its old due time and
-- its attempt refunded.
WITH lease AS MATERIALIZED (
    SELECT number_id FROM number_leases
    WHERE number_id = @number::text AND lease_id = @lease::uuid AND NOT released FOR KEY SHARE
), gone AS (
    DELETE FROM claims c USING lease WHERE c.number_id = lease.number_id AND c.lease_id = @lease::uuid AND c.seq = ANY (@seqs::bigint[])
    RETURNING c.ids, c.fences, c.dues
), lost AS (
    SELECT unnest(ids) AS id, unnest(fences) AS fence, unnest(dues) AS due_at FROM gone
), mine AS MATERIALIZED (
    SELECT r.id, lost.due_at FROM lost JOIN recipients r ON r.id = lost.id AND r.claim = lost.fence AND r.status = 'sending'
    ORDER BY r.id FOR NO KEY UPDATE OF r
), back AS (
    UPDATE recipients r SET status = 'pending', due_at = mine.due_at, attempt = r.attempt - 1
    FROM mine WHERE r.id = mine.id AND r.status = 'sending'
    RETURNING r.campaign_id
), counted AS (
    INSERT INTO campaign_counts (campaign_id, status, n)
    SELECT campaign_id, 'sending'::recipient_status, -count(*) FROM back GROUP BY campaign_id
    UNION ALL SELECT campaign_id, 'pending'::recipient_status, count(*) FROM back GROUP BY campaign_id
)
SELECT count(*) FROM back;

-- name: ReclaimRecipients :one
-- A new owner's first act: what every other lease of this number left claimed,
-- released ones too, becomes unknown. Never pending: nobody can prove that no
-- call was made. ready tells a fence that was shut from nothing to reclaim: an
-- owner that took one for the other would leave those rows sending for ever.
WITH lease AS MATERIALIZED (
    SELECT number_id FROM number_leases
    WHERE number_id = @number::text AND lease_id = @lease::uuid AND NOT released AND ready_at <= now() AND expires_at > now()
    FOR KEY SHARE
), gone AS (
    DELETE FROM claims c USING lease WHERE c.number_id = lease.number_id AND c.lease_id <> @lease::uuid
    RETURNING c.ids, c.fences
), left_behind AS (
    SELECT unnest(ids) AS id, unnest(fences) AS fence FROM gone
), theirs AS MATERIALIZED (
    SELECT r.id FROM left_behind x JOIN recipients r ON r.id = x.id AND r.claim = x.fence AND r.status = 'sending'
    ORDER BY r.id FOR NO KEY UPDATE OF r
), moved AS (
    UPDATE recipients r SET status = 'unknown' FROM theirs WHERE r.id = theirs.id AND r.status = 'sending'
    RETURNING r.id, r.claim, r.campaign_id
), noted AS (
    INSERT INTO unknowns (recipient_id, claim) SELECT id, claim FROM moved
    ON CONFLICT (recipient_id) DO UPDATE SET claim = excluded.claim, since = excluded.since
), counted AS (
    INSERT INTO campaign_counts (campaign_id, status, n)
    SELECT campaign_id, 'sending'::recipient_status, -count(*) FROM moved GROUP BY campaign_id
    UNION ALL SELECT campaign_id, 'unknown'::recipient_status, count(*) FROM moved GROUP BY campaign_id
)
SELECT EXISTS (SELECT FROM lease)::boolean AS ready, (SELECT count(*) FROM moved) AS turned;

-- name: ForgetClaims :execrows
-- The last result of these batches has been written. Deleting is a decision,
-- so it is fenced: a stale owner leaves its claims rows to the next one.
WITH lease AS MATERIALIZED (
    SELECT number_id FROM number_leases WHERE number_id = @number::text AND lease_id = @lease::uuid FOR KEY SHARE
)
DELETE FROM claims c USING lease WHERE c.number_id = lease.number_id AND c.lease_id = @lease::uuid AND c.seq = ANY (@seqs::bigint[]);
