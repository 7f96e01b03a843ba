-- Declaration order is the rank: what the platform says outranks what we
-- believe. engine.Status holds the same list, and a test holds them together.
CREATE TYPE recipient_status AS ENUM (
    'pending', 'sending', 'unknown', 'canceled', 'expired', 'suppressed', 'dead',
    'accepted', 'held', 'sent', 'failed', 'delivered', 'read');

-- Which cluster answers, and on which timeline: a promoted standby or a restored
-- backup answers otherwise than the server it stands in for, and may have
-- forgotten claims whose messages went out. The timeline is read from the name
-- of the WAL file: pg_control_checkpoint() tells the old one just after a
-- promotion.
CREATE FUNCTION cluster_identity() RETURNS text LANGUAGE sql STABLE AS $$
    SELECT system_identifier::text || '.' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) FROM pg_control_system()
$$;

-- One row: what this database is. The key signs callback ids, so that a status
-- of another application on the same account is never taken for ours. cluster
-- is the one an operator has last vouched for; on another nothing is claimed,
-- nor while an operator has stopped everything.
CREATE TABLE instance (
    one           boolean PRIMARY KEY DEFAULT true CHECK (one),
    callback_key  bytea NOT NULL DEFAULT uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()),
    cluster       text NOT NULL DEFAULT cluster_identity(),
    confirmed_at  timestamptz NOT NULL DEFAULT now(),
    stopped_at    timestamptz,                         -- since when everything is stopped; null: it is not
    stopped_by    text,
    stop_reason   text,
    created_at    timestamptz NOT NULL DEFAULT now(),
    CHECK (num_nulls(stopped_at, stopped_by, stop_reason) IN (0, 3))
);
INSERT INTO instance DEFAULT VALUES;

CREATE TABLE numbers (
    id            text PRIMARY KEY,                    -- Meta's phone_number_id
    waba_id       text NOT NULL,
    portfolio_id  text,
    display       text,                                -- as people read it; may be null
    mps_limit     double precision NOT NULL CHECK (mps_limit >= 2),
    headroom      double precision NOT NULL DEFAULT 0.2 CHECK (headroom >= 0 AND headroom < 1),
    burst         int NOT NULL DEFAULT 1 CHECK (burst >= 1),
    token_file    text,                                -- a path; tokens are never stored
    enabled       boolean NOT NULL DEFAULT true,
    enabled_at    timestamptz,                         -- when an operator last said that it may send
    stop_reason   text,
    stopped_at    timestamptz,                         -- set by number_held while it is not enabled
    paused_until  timestamptz,
    paused_since  timestamptz,                         -- set by number_held: the first of pauses that ran into each other
    said          text,                                -- the platform's last word on its quality or pace
    said_bears    text,                                -- and what that means: nothing, warning, go
    said_at       timestamptz,
    learned_mps   double precision CHECK (learned_mps > 0), -- the pace right after the last throttle that taught one,
    learned_ceiling double precision,                  -- what was accepted a second when it came,
    learned_at    timestamptz,                         -- and when that was
    created_at    timestamptz NOT NULL DEFAULT now(),
    CHECK (burst = 1 OR burst <= mps_limit / 20),
    CHECK (num_nulls(learned_mps, learned_ceiling, learned_at) IN (0, 3))
);

-- Whatever statement stops or pauses a number, it is known since when.
CREATE FUNCTION number_held() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.stopped_at := CASE WHEN NOT NEW.enabled THEN coalesce(OLD.stopped_at, now()) END;
    NEW.paused_since := CASE WHEN NEW.paused_until > now() THEN CASE WHEN OLD.paused_until > now() THEN coalesce(OLD.paused_since, now()) ELSE now() END END;
    RETURN NEW;
END $$;
CREATE TRIGGER number_held BEFORE UPDATE ON numbers FOR EACH ROW
    WHEN ((OLD.enabled, OLD.paused_until) IS DISTINCT FROM (NEW.enabled, NEW.paused_until))
    EXECUTE FUNCTION number_held();

-- What the platform says of business accounts and templates by its webhooks. The
-- later word stands, and of two of one second the one that forbids more.
CREATE TABLE accounts (
    waba_id      text PRIMARY KEY,
    said         text,
    said_bears   text CHECK (said_bears IN ('warning', 'stop', 'go')),
    said_reason  text,
    said_at      timestamptz,
    daily_limit  bigint CHECK (daily_limit > 0),       -- people whom its portfolio may reach in 24 h; the largest bigint: no limit
    limit_at     timestamptz
);
CREATE TABLE templates (
    waba_id      text NOT NULL,
    name         text NOT NULL,
    language     text NOT NULL,
    said         text NOT NULL,
    said_bears   text NOT NULL CHECK (said_bears IN ('nothing', 'warning', 'stop', 'go')),
    said_reason  text NOT NULL,
    said_at      timestamptz NOT NULL,
    PRIMARY KEY (waba_id, name, language)
);

-- Nodes that can own numbers, while they are seen: what one's share is, is
-- counted from them.
CREATE TABLE nodes (
    id        text PRIMARY KEY,
    up_since  timestamptz NOT NULL DEFAULT now(),
    seen_at   timestamptz NOT NULL DEFAULT now(),
    apart     boolean NOT NULL DEFAULT false                -- it lives, and cannot reach the platform
) WITH (fillfactor = 50);

-- UNIQUE (number_id, lease_id) makes a change of lease_id take the lock that
-- FOR KEY SHARE waits for: heartbeats pass a claim, a takeover does not.
CREATE TABLE number_leases (
    number_id   text PRIMARY KEY REFERENCES numbers ON DELETE CASCADE,
    lease_id    uuid,
    holder      text,
    hb          bigint NOT NULL DEFAULT 0,
    expires_at  timestamptz,
    released    boolean NOT NULL DEFAULT false,
    ready_at    timestamptz,
    silent_at   timestamptz,                                -- when it was first seen to have run out; no heartbeat since
    UNIQUE (number_id, lease_id)
) WITH (fillfactor = 50);

CREATE TABLE lease_events (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    number_id  text NOT NULL,
    lease_id   uuid NOT NULL,
    holder     text,
    kind       text NOT NULL CHECK (kind IN ('grant', 'release')),
    ready_at   timestamptz,
    at         timestamptz NOT NULL DEFAULT now()
);

-- What a number's messages prove about its webhooks: a status that arrived for
-- a message accepted at T says that webhooks were healthy for messages up to T.
CREATE TABLE number_traffic (
    number_id    text PRIMARY KEY REFERENCES numbers ON DELETE CASCADE,
    accepted_at  timestamptz NOT NULL DEFAULT '-infinity',  -- of the last acceptance recorded
    heard_at     timestamptz NOT NULL DEFAULT '-infinity',  -- acceptance time of the newest message a status was heard of
    accepted     bigint NOT NULL DEFAULT 0                  -- messages accepted so far, all campaigns'; display only
) WITH (fillfactor = 50);

-- Webhook receivers that are up, for the rule of healthy webhook time.
CREATE TABLE receivers (
    node      text PRIMARY KEY,
    up_since  timestamptz NOT NULL DEFAULT now(),
    seen_at   timestamptz NOT NULL DEFAULT now(),
    heard_at  timestamptz                                   -- last signed webhook
);

CREATE TABLE campaigns (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name             text NOT NULL UNIQUE CHECK (name <> ''),
    template         text NOT NULL,
    language         text NOT NULL,
    category         text NOT NULL DEFAULT 'marketing' CHECK (category IN ('marketing', 'utility', 'authentication')),
    params           jsonb NOT NULL DEFAULT '[]',           -- bindings: [{target, column, literal}], column = index into recipient_params.params
    columns          text[] NOT NULL DEFAULT '{}',          -- names of the values in recipient_params.params
    state            text NOT NULL DEFAULT 'importing'
        CHECK (state IN ('importing', 'draft', 'scheduled', 'running', 'pausing', 'paused', 'canceling', 'canceled', 'finished')),
    state_reason     text,
    paused_until     timestamptz,                           -- running, and not claimed from: the platform needs a while
    control_version  bigint NOT NULL DEFAULT 0,             -- of the last pause, resume or cancel
    control_at       timestamptz,                           -- when it was asked for
    confirmed_at     timestamptz,                           -- when no lane could send any more
    resume_at        timestamptz,                           -- pausing, paused: when it goes on by itself; null: when told to
    stopped          boolean NOT NULL DEFAULT false,        -- its pause is the stop of everything, and ends with it
    start_at         timestamptz,
    started_at       timestamptz,
    finished_at      timestamptz,
    expire_at        timestamptz,
    priority         int NOT NULL DEFAULT 0,
    on_unknown       text NOT NULL DEFAULT 'fail' CHECK (on_unknown IN ('fail', 'resend', 'hold')),
    max_attempts     int NOT NULL DEFAULT 5 CHECK (max_attempts BETWEEN 1 AND 100),
    jitter           text NOT NULL DEFAULT 'full' CHECK (jitter IN ('full', 'decorrelated')),
    fallback_wait    interval NOT NULL DEFAULT '1 min' CHECK (fallback_wait > '0'), -- no primary able for so long: the fallback numbers stand in
    fallback_after   int CHECK (fallback_after > 0),        -- whom so many attempts did not reach, a fallback number may try in any case
    fallback_since   timestamptz,                           -- people have been told that the fallback numbers stand in; nothing decides by it
    absent_days      int NOT NULL DEFAULT 30 CHECK (absent_days BETWEEN 0 AND 365), -- marketing: whom any campaign found not on WhatsApp this lately is left out
    cap_messages     int CHECK (cap_messages BETWEEN 1 AND 100), -- marketing: whoever had this many messages of it, of any campaign,
    cap_days         int CHECK (cap_days BETWEEN 1 AND 365),     -- in this many days is left out; null: no cap
    send_window      jsonb,                                 -- the hours at which it may be sent, and whose; null: always
    created_at       timestamptz NOT NULL DEFAULT now(),
    CHECK (num_nulls(cap_messages, cap_days) IN (0, 2)),
    CHECK (cap_messages IS NULL OR category = 'marketing')
);
-- Whether nothing of a campaign will be sent any more, so that what waits may be
-- taken off: its time is over, or its cancel is confirmed.
CREATE FUNCTION campaign_ends(state text, expire_at timestamptz, confirmed_at timestamptz) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT coalesce(state IN ('running', 'paused') AND expire_at <= now() OR state = 'canceling' AND confirmed_at IS NOT NULL, false)
$$;

CREATE INDEX campaigns_active ON campaigns (state) WHERE state IN ('scheduled', 'running', 'pausing', 'canceling');

CREATE TABLE campaign_numbers (
    number_id    text NOT NULL REFERENCES numbers,
    campaign_id  bigint NOT NULL REFERENCES campaigns ON DELETE CASCADE,
    role         text NOT NULL DEFAULT 'primary' CHECK (role IN ('primary', 'fallback')),
    PRIMARY KEY (number_id, campaign_id)
);
CREATE INDEX campaign_numbers_campaign ON campaign_numbers (campaign_id);

-- Lanes that have nothing of a campaign left in their hands since it was told to
-- pause or cancel. An ack of an earlier version, or of an earlier lease, says
-- nothing about this one.
CREATE TABLE campaign_acks (
    campaign_id      bigint NOT NULL REFERENCES campaigns ON DELETE CASCADE,
    number_id        text NOT NULL,
    lease_id         uuid NOT NULL,
    control_version  bigint NOT NULL,
    at               timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (campaign_id, number_id)
);

-- Pauses and cancels of running campaigns, once they were confirmed: from when
-- until when something could still go out. Written by the confirmation.
CREATE TABLE campaign_controls (
    campaign_id      bigint NOT NULL REFERENCES campaigns ON DELETE CASCADE,
    control_version  bigint NOT NULL,
    kind             text NOT NULL CHECK (kind IN ('pause', 'cancel')),
    reason           text,
    asked_at         timestamptz NOT NULL,
    confirmed_at     timestamptz NOT NULL,
    ended_at         timestamptz,                           -- pause: when the campaign was told to go on
    PRIMARY KEY (campaign_id, control_version)
);

-- What a campaign came to, written once it is over; a replay that opens it anew
-- brings another end, and another report.
CREATE TABLE campaign_reports (
    campaign_id  bigint PRIMARY KEY REFERENCES campaigns ON DELETE CASCADE,
    finished_at  timestamptz NOT NULL,                      -- which end of it
    at           timestamptz NOT NULL DEFAULT now(),
    body         jsonb NOT NULL
);

-- When the people of a campaign may be sent to, by the time zones that they may
-- be in: the interval that is open now, or that opens next, computed by whoever
-- tends campaigns. Where nobody does it runs out, and the zone is closed.
CREATE TABLE campaign_zones (
    campaign_id  bigint NOT NULL REFERENCES campaigns ON DELETE CASCADE,
    zone         smallint NOT NULL DEFAULT 0,
    tz           text,                                  -- IANA names with commas in between: open while it is in all of them; null: always
    opens_at     timestamptz NOT NULL DEFAULT '-infinity',
    closes_at    timestamptz NOT NULL DEFAULT 'infinity',
    PRIMARY KEY (campaign_id, zone),
    UNIQUE (campaign_id, tz),
    CHECK (tz IS NULL OR closes_at < 'infinity')
);

-- Messages that failed after they were accepted, by when that was: a campaign
-- whose messages all fail stops. Those accepted before its newest message that
-- lives say nothing any more, and are swept.
CREATE TABLE campaign_failures (
    campaign_id  bigint NOT NULL,
    accepted_at  timestamptz NOT NULL,
    suspect      boolean NOT NULL,                          -- the campaign's fault, when it repeats
    sent         boolean NOT NULL                           -- it had been sent on before it failed
);
CREATE INDEX campaign_failures_campaign ON campaign_failures (campaign_id, accepted_at);

-- When the newest message of a campaign was accepted that has been sent on, and
-- that has been delivered; behind by a quarter of a second at most, so that the
-- writers of statuses seldom meet here.
CREATE TABLE campaign_health (
    campaign_id   bigint PRIMARY KEY,
    sent_at       timestamptz NOT NULL DEFAULT '-infinity',
    delivered_at  timestamptz NOT NULL DEFAULT '-infinity'
) WITH (fillfactor = 50);

-- One import a campaign: how far it came, and what the file was.
CREATE TABLE campaign_imports (
    campaign_id  bigint PRIMARY KEY REFERENCES campaigns ON DELETE CASCADE,
    file         text NOT NULL,                             -- its base name, for people
    sha256       bytea,                                     -- of the whole file, known at the end
    head_sha256  bytea NOT NULL,                            -- of its first MiB, for a resume
    size         bigint NOT NULL,
    line         bigint NOT NULL DEFAULT 0,                 -- last line committed
    rows_digest  bigint NOT NULL DEFAULT 0,                 -- of every row up to it, for a resume
    rows_read    bigint NOT NULL DEFAULT 0,
    accepted     bigint NOT NULL DEFAULT 0,
    rejected     bigint NOT NULL DEFAULT 0,
    duplicate    bigint NOT NULL DEFAULT 0,
    defaulted    bigint NOT NULL DEFAULT 0,                 -- read with the default country
    done_at      timestamptz,
    CHECK (rows_read = accepted + rejected + duplicate)
);

-- Recipient ids are handed out in blocks, so that every read per campaign is a
-- few ranges of the primary key.
CREATE SEQUENCE recipient_blocks INCREMENT 10000 START 1;
CREATE TABLE campaign_ranges (
    campaign_id  bigint NOT NULL REFERENCES campaigns ON DELETE CASCADE,
    lo           bigint NOT NULL,
    hi           bigint NOT NULL,
    PRIMARY KEY (campaign_id, lo),
    CHECK (lo <= hi)
);

-- Narrow and hot. fillfactor 50: a batch rewrites whole pages, and the new
-- versions find room in theirs. No index holds status or message_id.
CREATE TABLE recipients (
    id              bigint NOT NULL,
    campaign_id     bigint NOT NULL,
    due_at          timestamptz,
    accepted_at     timestamptz,
    sent_at         timestamptz,
    delivered_at    timestamptz,
    read_at         timestamptz,
    failed_at       timestamptz,
    status          recipient_status NOT NULL DEFAULT 'pending',
    claim           int NOT NULL DEFAULT 0,
    error_code      int,
    attempt         smallint NOT NULL DEFAULT 0,
    zone            smallint NOT NULL DEFAULT 0,
    replays         smallint NOT NULL DEFAULT 0,            -- how often an operator has had it sent anew
    number_id       text,
    message_id      text,
    last_replay_id  uuid,
    CONSTRAINT recipients_pkey PRIMARY KEY (id),
    CONSTRAINT due_while_pending CHECK ((status = 'pending') = (due_at IS NOT NULL))
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 1);
CREATE INDEX recipients_due ON recipients (campaign_id, zone, due_at DESC, id) WHERE due_at IS NOT NULL;

-- Wide and immutable.
CREATE TABLE recipient_params (
    id           bigint NOT NULL,
    campaign_id  bigint NOT NULL,
    line         bigint NOT NULL,
    phone        text COLLATE "C" NOT NULL,                 -- E.164 with +
    params       text[] NOT NULL DEFAULT '{}',
    CONSTRAINT recipient_params_pkey PRIMARY KEY (id),
    CONSTRAINT recipient_params_phone UNIQUE (phone, campaign_id)
);

-- One row a claim batch: what a dead owner leaves.
CREATE TABLE claims (
    number_id  text NOT NULL,
    lease_id   uuid NOT NULL,
    seq        bigint NOT NULL,
    at         timestamptz NOT NULL DEFAULT now(),
    ids        bigint[] NOT NULL,
    fences     int[] NOT NULL,
    dues       timestamptz[] NOT NULL,
    PRIMARY KEY (number_id, lease_id, seq)
);

CREATE TABLE unknowns (
    recipient_id  bigint PRIMARY KEY,
    claim         int NOT NULL,
    since         timestamptz NOT NULL DEFAULT now()
);

-- Only what was not one plain acceptance: a row per (recipient, claim).
CREATE TABLE attempts (
    recipient_id  bigint NOT NULL,
    claim         int NOT NULL,
    number_id     text,
    at            timestamptz NOT NULL DEFAULT now(),
    code          int,
    title         text,
    message_id    text,
    failed        boolean NOT NULL DEFAULT false,           -- by the platform's word
    PRIMARY KEY (recipient_id, claim)
);
-- Messages that live beside the one their row shows: few, and what is counted
-- as a duplicate.
CREATE INDEX attempts_living ON attempts (recipient_id) WHERE message_id IS NOT NULL AND NOT failed;

-- An operator's orders to send dead letters anew. The id makes twice once, and
-- last_due lets a replay that was cut short go on at its rate.
CREATE TABLE replays (
    id           uuid PRIMARY KEY,
    campaign_id  bigint NOT NULL REFERENCES campaigns ON DELETE CASCADE,
    filter       jsonb NOT NULL,
    forced       boolean NOT NULL,
    who          text NOT NULL,
    at           timestamptz NOT NULL DEFAULT now(),
    moved        bigint NOT NULL DEFAULT 0,
    last_due     timestamptz                                -- when the last recipient moved so far becomes due
);

-- What an operator did against the usual rules, and who it was.
CREATE TABLE audit (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at       timestamptz NOT NULL DEFAULT now(),
    who      text NOT NULL,
    what     text NOT NULL,                                 -- replay_forced, unknowns_closed, breaker_forced, database_confirmed,
                                                            -- everything_stopped, everything_released,
                                                            -- suppression_added, suppression_removed, suppressions_imported
    subject  text NOT NULL,                                 -- campaign:ID, number:ID, host, database, everything, suppressions
    body     jsonb NOT NULL DEFAULT '{}'
);

-- Whom nothing may be sent to, and whom nothing may be sent to yet. One table,
-- so that a claim asks once for each row. at is when it was said and lifted_at when
-- it was taken back: what was said later stands, and what is over or lifted stays as
-- a row, so that an older word that comes late does not revive it. Where only taking
-- back was heard of, at is -infinity.
--   suppress  an operator's list, and Meta's word that the person stopped marketing
--   stop      the person's own word, in a message to us; the same lifts it
--   absent    not on WhatsApp when last tried: each campaign says for how many days that counts
--   wait      Meta's limits on one person
-- The kinds are rows of their own, so that none lifts or shortens another's.
CREATE TABLE suppressions (
    phone    text COLLATE "C" NOT NULL,
    scope    text NOT NULL,                                 -- all | marketing | utility | authentication | waba:W | waba:W:marketing | number:N
    kind     text NOT NULL DEFAULT 'suppress' CHECK (kind IN ('suppress', 'stop', 'absent', 'wait')),
    reason   text,
    until    timestamptz NOT NULL DEFAULT 'infinity',
    at       timestamptz NOT NULL DEFAULT now(),
    lifted_at timestamptz,                                  -- null: not since at
    lifted_by text,                                         -- an operator; null: the person, or Meta's word of it
    strikes  int NOT NULL DEFAULT 0,                        -- wait: how many of them came in a row before this one
    PRIMARY KEY (phone, scope, kind),
    CHECK (kind IN ('suppress', 'stop') OR until < 'infinity')
);
CREATE INDEX suppressions_passing ON suppressions (until) WHERE kind IN ('absent', 'wait');

-- A missing breaker row is a closed gate: a number's row is made with the number.
-- What is said of the last move (reason, note, samples, failures, reporters) is
-- set by the statement that moves it; seq, since and the counts by breaker_moved.
-- cluster is the one that epoch was made on.
CREATE TABLE breakers (
    scope         text PRIMARY KEY,                         -- host | number:ID
    state         text NOT NULL DEFAULT 'closed' CHECK (state IN ('closed', 'open', 'half_open')),
    since         timestamptz NOT NULL DEFAULT now(),
    away_since    timestamptz,                              -- not closed since: its probes do not begin it anew
    reason        text NOT NULL DEFAULT 'new' CHECK (reason IN ('new', 'consecutive', 'ratio', 'throttled', 'forced',
        'probe', 'probe_expired', 'probe_unused', 'probe_answered', 'probe_throttled', 'probe_failed')),
    note          text NOT NULL DEFAULT '',                 -- forced: an operator's words
    cause         text NOT NULL DEFAULT '',                 -- why it last opened
    samples       bigint NOT NULL DEFAULT 0,
    failures      bigint NOT NULL DEFAULT 0,
    reporters     int NOT NULL DEFAULT 0,
    open_seconds  double precision NOT NULL DEFAULT 0,      -- timeout of this opening or the last; doubles with every failed probe
    open_until    timestamptz,
    probe_token   uuid,
    probe_until   timestamptz,
    forced_until  timestamptz,
    epoch         uuid NOT NULL DEFAULT gen_random_uuid(),
    cluster       text NOT NULL DEFAULT cluster_identity(),
    seq           bigint NOT NULL DEFAULT 0,
    to_closed     bigint NOT NULL DEFAULT 0,                -- moves into each state, ever
    to_half_open  bigint NOT NULL DEFAULT 0,
    to_open       bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

-- Every move of a breaker, with the breaker row's own next number: a follower of
-- (epoch, seq) sees no gap. A sequence would not do: it has gaps after a
-- rollback, and its numbers commit out of order. Another cluster, a promoted
-- standby say, may have forgotten moves that followers know of, so its first
-- move begins a new epoch.
CREATE TABLE breaker_events (
    scope      text NOT NULL,
    epoch      uuid NOT NULL,
    seq        bigint NOT NULL,
    at         timestamptz NOT NULL,
    prev       text NOT NULL,
    state      text NOT NULL,
    reason     text NOT NULL,
    note       text NOT NULL DEFAULT '',
    samples    bigint NOT NULL DEFAULT 0,
    failures   bigint NOT NULL DEFAULT 0,
    reporters  int NOT NULL DEFAULT 0,
    told       boolean NOT NULL DEFAULT false,              -- a notice of it has been written
    PRIMARY KEY (scope, epoch, seq)
);
CREATE INDEX breaker_events_untold ON breaker_events (at) WHERE NOT told;
CREATE INDEX breaker_events_at ON breaker_events (scope, at);

-- No statement, and no hand, can move a breaker without its event: a new state,
-- a new permit and a new force are moves. It runs under the row's lock, so seq
-- and at only grow.
CREATE FUNCTION breaker_moved() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.cluster <> cluster_identity() THEN
        NEW.cluster := cluster_identity();
        NEW.epoch := gen_random_uuid();
        NEW.seq := 0;
    END IF;
    NEW.seq := NEW.seq + 1;
    IF NEW.state <> OLD.state THEN
        NEW.since := clock_timestamp();
        NEW.away_since := CASE WHEN NEW.state <> 'closed' THEN coalesce(OLD.away_since, NEW.since) END;
    END IF;
    NEW.to_closed := NEW.to_closed + (NEW.state = 'closed')::int;
    NEW.to_half_open := NEW.to_half_open + (NEW.state = 'half_open')::int;
    NEW.to_open := NEW.to_open + (NEW.state = 'open')::int;
    INSERT INTO breaker_events (scope, epoch, seq, at, prev, state, reason, note, samples, failures, reporters)
    VALUES (NEW.scope, NEW.epoch, NEW.seq, clock_timestamp(), OLD.state, NEW.state, NEW.reason, NEW.note,
        NEW.samples, NEW.failures, NEW.reporters);
    RETURN NEW;
END $$;
CREATE TRIGGER breaker_moved BEFORE UPDATE ON breakers FOR EACH ROW
    WHEN ((OLD.state, OLD.probe_token, OLD.forced_until) IS DISTINCT FROM (NEW.state, NEW.probe_token, NEW.forced_until))
    EXECUTE FUNCTION breaker_moved();
INSERT INTO breakers (scope) VALUES ('host');

-- Since when a number cannot send, and why; NULL while it can. The host's breaker
-- is no reason: another number could not send then either.
CREATE VIEW number_absences AS
SELECT n.id AS number_id,
    least(CASE WHEN NOT n.enabled THEN coalesce(n.stopped_at, n.created_at) END, CASE WHEN n.paused_until > now() THEN n.paused_since END,
        CASE WHEN b.state IS DISTINCT FROM 'closed' THEN coalesce(b.away_since, n.created_at) END) AS since,
    CASE WHEN NOT n.enabled THEN 'stopped: ' || coalesce(n.stop_reason, '')
         WHEN b.state IS DISTINCT FROM 'closed' THEN 'breaker open: ' || coalesce(b.cause, 'its row is missing')
         WHEN n.paused_until > now() THEN 'paused by throttles' END AS why
FROM numbers n LEFT JOIN breakers b ON b.scope = 'number:' || n.id;

-- From how many spent attempts on a campaign's fallback numbers may claim its
-- recipients: 0 (all of them) once no primary has been able to send for as long as
-- the campaign says; else fallback_after; NULL: none. One primary that is able
-- again ends it at once. A function, so that whoever asks about a primary number
-- does not pay for its plan.
CREATE FUNCTION fallback_floor(campaign bigint) RETURNS int LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN NOT EXISTS (SELECT FROM campaign_numbers cn JOIN number_absences a ON a.number_id = cn.number_id
            WHERE cn.campaign_id = c.id AND cn.role = 'primary' AND coalesce(a.since, 'infinity') > now() - c.fallback_wait)
        THEN 0 ELSE c.fallback_after END
    FROM campaigns c WHERE c.id = campaign
$$;

-- Whether anybody waits behind a breaker: a row that a claim would take if it were
-- closed. A number's pause for a throttle is no reason against it: that lasts for
-- seconds, and a breaker that throttles tripped would seem to have nobody behind
-- it again and again. One that nobody waits behind does no harm by being open, and
-- has nothing to probe with. One index probe a campaign and zone, as in the claim.
CREATE FUNCTION work_waits(breaker text) RETURNS boolean LANGUAGE sql STABLE AS $$
SELECT EXISTS (
    SELECT FROM numbers n JOIN campaign_numbers cn ON cn.number_id = n.id
    JOIN campaigns c ON c.id = cn.campaign_id AND c.state = 'running' AND c.start_at <= now() AND coalesce(c.expire_at, 'infinity') > now()
        AND coalesce(c.paused_until, '-infinity') <= now()
    JOIN campaign_zones z ON z.campaign_id = c.id AND z.opens_at <= now() AND z.closes_at > now()
    WHERE (breaker = 'host' OR n.id = substr(breaker, 8)) AND n.enabled
      AND (cn.role = 'primary' OR fallback_floor(c.id) IS NOT DISTINCT FROM 0)
      AND (SELECT r.id FROM recipients r WHERE r.campaign_id = z.campaign_id AND r.zone = z.zone AND r.due_at <= now()
           ORDER BY r.due_at DESC, r.id LIMIT 1) IS NOT NULL)
$$;

-- What the calls of a scope came to, as nodes report it; of the last minute only.
CREATE TABLE breaker_reports (
    scope     text NOT NULL,
    node      text NOT NULL,
    seq       bigint NOT NULL,                              -- of the node's report: a repeat counts once
    at        timestamptz NOT NULL DEFAULT now(),
    samples   int NOT NULL,
    failures  int NOT NULL,
    streak    int NOT NULL,                                 -- failures in a row, at the end of it
    times     int[] NOT NULL,                               -- calls by duration, in classes
    PRIMARY KEY (scope, node, seq)
);
CREATE INDEX breaker_reports_at ON breaker_reports (scope, at);

-- What somebody should be told, written by the statement that makes it so, and
-- delivered by a job. Its place in the log, seq, is given to it later, once it is
-- committed: ids are taken before, so that a reader who follows them would pass
-- over a notice whose transaction took longer than the next one's.
CREATE TABLE notices (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    seq      bigint UNIQUE,
    key      uuid NOT NULL DEFAULT gen_random_uuid(),       -- what receivers know it by, in every attempt
    kind     text NOT NULL,
    subject  text NOT NULL,                                 -- what it is about: campaign:ID, number:ID, host
    body     jsonb NOT NULL DEFAULT '{}',                   -- facts; the words are made of them for each receiver
    at       timestamptz NOT NULL DEFAULT now()
);
-- Of dead letters one an hour and campaign is enough.
CREATE UNIQUE INDEX notices_dead ON notices (subject, date_trunc('hour', at AT TIME ZONE 'UTC')) WHERE kind = 'campaign.dead_letters';
CREATE INDEX notices_fresh ON notices (id) WHERE seq IS NULL;
CREATE INDEX notices_subject ON notices (subject, id);

-- One row: which log of notices this is, and how far it is numbered.
CREATE TABLE notice_log (
    one     boolean PRIMARY KEY DEFAULT true CHECK (one),
    origin  uuid NOT NULL DEFAULT gen_random_uuid(),
    seq     bigint NOT NULL DEFAULT 0
);
INSERT INTO notice_log DEFAULT VALUES;

-- How far each endpoint has been told. It is named by a hash of its address,
-- which may be a secret. Who delivers to it holds a claim, not a lock: a request
-- may take seconds, and its node may die in it.
CREATE TABLE notice_endpoints (
    endpoint       text PRIMARY KEY,
    name           text NOT NULL,                           -- kind and host, for people
    seq            bigint NOT NULL,                         -- of the last notice that it took
    claim          uuid NOT NULL DEFAULT gen_random_uuid(), -- of whoever delivered last, or does now
    claimed_until  timestamptz NOT NULL DEFAULT '-infinity',
    failures       int NOT NULL DEFAULT 0,                  -- in a row
    retry_at       timestamptz NOT NULL DEFAULT '-infinity',
    trouble        text,                                    -- what came of the last attempt, if it failed
    seen_at        timestamptz NOT NULL DEFAULT now()       -- a node had it in its configuration
) WITH (fillfactor = 50);

-- Inbound messages, account events, and statuses that found no recipient.
CREATE TABLE webhook_events (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key         text,                                       -- a hash of an inbound message's id, or of another change and its time, so that one that comes again is kept once
    kind        text NOT NULL,
    waba_id     text,
    number_id   text,
    body        jsonb NOT NULL,
    at          timestamptz NOT NULL DEFAULT now(),
    retry_at    timestamptz,                                -- unmatched statuses: when to look for their recipient again
    keep_until  timestamptz NOT NULL                        -- then it is deleted
);
CREATE UNIQUE INDEX webhook_events_key ON webhook_events (key) WHERE key IS NOT NULL;
CREATE INDEX webhook_events_retry ON webhook_events (retry_at) WHERE retry_at IS NOT NULL;
CREATE INDEX webhook_events_phone ON webhook_events (ltrim(body ->> 'phone', '+')) WHERE kind = 'unmatched';
CREATE INDEX webhook_events_keep ON webhook_events (keep_until);

-- Counts for display only: every batch appends its deltas in its own
-- transaction, so counts are exact and no writer waits for another; a fold
-- replaces a campaign's rows by their sums. Nothing decides by them.
CREATE TABLE campaign_counts (
    campaign_id  bigint NOT NULL,
    status       recipient_status NOT NULL,
    n            bigint NOT NULL
);
CREATE INDEX campaign_counts_campaign ON campaign_counts (campaign_id);
