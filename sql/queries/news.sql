-- What the platform says by webhook of accounts, templates and numbers, at most
-- one word of each subject a statement: a delivery may hold thousands. Each
-- statement keeps a word if it is the later one, and says whether it stands:
-- what a word that stands asks for is asked for at every delivery of it, and
-- leaves alone what an operator has let go on since.

-- name: HearTemplates :many
-- Of each word that forbids its template, a running campaign that sends it from
-- the account, and does not merely fall back on it.
-- Who stopped for it is told of when it may be sent again.
WITH word AS (
    SELECT unnest(@keys::int[]) AS key, unnest(@accounts::text[]) AS account, unnest(@names::text[]) AS name, unnest(@languages::text[]) AS language,
        unnest(@words::text[]) AS said, unnest(@bears::text[]) AS bears, unnest(@reasons::text[]) AS reason,
        to_timestamp(unnest(@at_ms::bigint[]) / 1000.0) AS at
), heard AS (
    INSERT INTO templates AS t (waba_id, name, language, said, said_bears, said_reason, said_at)
    SELECT account, name, language, said, bears, reason, at FROM word ORDER BY account, name, language
    ON CONFLICT (waba_id, name, language) DO UPDATE SET said = excluded.said, said_bears = excluded.said_bears,
        said_reason = excluded.said_reason, said_at = excluded.said_at
    WHERE (excluded.said_at, excluded.said_bears = 'stop') > (t.said_at, t.said_bears = 'stop')
    RETURNING t.waba_id, t.name, t.language
), mine AS (
    SELECT DISTINCT ON (w.key, c.id) w.key, c.id, c.name, c.state, cn.role, n.id AS number_id,
        c.state <> 'running' AND NOT c.stopped AND c.state_reason <> 'paused by the operator' AS stopped_itself FROM word w
    JOIN campaigns c ON c.template = w.name AND c.language = w.language
    JOIN campaign_numbers cn ON cn.campaign_id = c.id JOIN numbers n ON n.id = cn.number_id AND n.waba_id = w.account
    WHERE c.state IN ('running', 'pausing', 'paused')
    ORDER BY w.key, c.id, cn.role DESC, n.id
), senders AS (
    SELECT mine.key, jsonb_agg(mine.name ORDER BY mine.id) AS names,
        jsonb_agg(mine.name ORDER BY mine.id) FILTER (WHERE mine.stopped_itself) AS stopped FROM mine GROUP BY mine.key
), told AS (
    INSERT INTO notices (kind, subject, body)
    SELECT CASE w.bears WHEN 'go' THEN 'template.approved' ELSE 'template.flagged' END, concat_ws('/', 'template:' || w.account, w.name, w.language),
        jsonb_build_object('template', w.name, 'reason', w.reason, 'campaigns', coalesce(CASE w.bears WHEN 'warning' THEN s.names ELSE s.stopped END, '[]'))
    FROM word w JOIN heard h ON h.waba_id = w.account AND h.name = w.name AND h.language = w.language
    LEFT JOIN senders s ON s.key = w.key
    WHERE w.bears = 'warning' OR (w.bears = 'go' AND (s.stopped IS NOT NULL
        OR EXISTS (SELECT FROM templates t WHERE t.waba_id = w.account AND t.name = w.name AND t.language = w.language AND t.said_bears = 'warning')))
    ORDER BY w.key
)
SELECT DISTINCT ON (w.key) w.key::int AS key, mine.id::bigint AS campaign_id, mine.number_id::text AS number_id FROM mine JOIN word w ON w.key = mine.key
WHERE mine.state = 'running' AND mine.role = 'primary' AND w.bears = 'stop' AND (
    EXISTS (SELECT FROM heard h WHERE h.waba_id = w.account AND h.name = w.name AND h.language = w.language)
    OR EXISTS (SELECT FROM templates t WHERE t.waba_id = w.account AND t.name = w.name AND t.language = w.language AND t.said_at = w.at AND t.said = w.said))
ORDER BY w.key, mine.id;

-- name: HearAccounts :many
-- Of each word that forbids its account to send, a number of the account.
WITH word AS (
    SELECT unnest(@keys::int[]) AS key, unnest(@accounts::text[]) AS account, unnest(@words::text[]) AS said, unnest(@bears::text[]) AS bears,
        unnest(@reasons::text[]) AS reason, to_timestamp(unnest(@at_ms::bigint[]) / 1000.0) AS at
), heard AS (
    INSERT INTO accounts AS a (waba_id, said, said_bears, said_reason, said_at)
    SELECT account, said, bears, reason, at FROM word ORDER BY account
    ON CONFLICT (waba_id) DO UPDATE SET said = excluded.said, said_bears = excluded.said_bears,
        said_reason = excluded.said_reason, said_at = excluded.said_at
    WHERE a.said_at IS NULL OR (excluded.said_at, excluded.said_bears = 'stop') > (a.said_at, a.said_bears = 'stop')
    RETURNING a.waba_id
), told AS (
    INSERT INTO notices (kind, subject, body)
    SELECT CASE w.bears WHEN 'go' THEN 'account.reinstated' ELSE 'account.warned' END, 'account:' || w.account,
        jsonb_build_object('reason', w.reason, 'numbers', (SELECT coalesce(jsonb_agg(n.id ORDER BY n.id), '[]') FROM numbers n
            WHERE n.waba_id = w.account AND (w.bears = 'warning' OR NOT n.enabled)))
    FROM word w JOIN heard h ON h.waba_id = w.account
    WHERE w.bears IN ('go', 'warning') AND w.account IN (SELECT n.waba_id FROM numbers n)
    ORDER BY w.key
)
SELECT DISTINCT ON (w.key) w.key::int AS key, n.id::text AS number_id FROM word w JOIN numbers n ON n.waba_id = w.account
WHERE w.bears = 'stop' AND (EXISTS (SELECT FROM heard h WHERE h.waba_id = w.account)
    OR EXISTS (SELECT FROM accounts a WHERE a.waba_id = w.account AND a.said_at = w.at AND a.said = w.said))
ORDER BY w.key, n.id;

-- name: HearNumbers :exec
-- The platform names them by how they show, not by their ids.
WITH word AS (
    SELECT unnest(@accounts::text[]) AS account, unnest(@phones::text[]) AS phone, unnest(@words::text[]) AS said, unnest(@bears::text[]) AS bears,
        unnest(@reasons::text[]) AS reason, unnest(@advices::text[]) AS advice, to_timestamp(unnest(@at_ms::bigint[]) / 1000.0) AS at
), heard AS (
    UPDATE numbers n SET said = w.said, said_bears = w.bears, said_at = w.at FROM word w
    WHERE n.waba_id = w.account AND regexp_replace(n.display, '[^0-9]', '', 'g') = w.phone
      AND (n.said_at IS NULL OR (w.at, w.bears = 'warning') > (n.said_at, n.said_bears = 'warning'))
    RETURNING n.id, w.bears, w.reason, w.advice
)
INSERT INTO notices (kind, subject, body)
SELECT CASE bears WHEN 'warning' THEN 'quality.worse' ELSE 'quality.better' END, 'quality:' || id,
    jsonb_build_object('numbers', jsonb_build_array(id), 'reason', reason, 'advice', advice)
FROM heard WHERE bears IN ('warning', 'go');

-- name: HearLimits :exec
WITH word AS (
    SELECT unnest(@accounts::text[]) AS account, unnest(@limits::bigint[]) AS daily_limit, to_timestamp(unnest(@at_ms::bigint[]) / 1000.0) AS at
), was AS (
    SELECT a.waba_id, a.daily_limit FROM accounts a JOIN word w ON w.account = a.waba_id
), heard AS (
    INSERT INTO accounts AS a (waba_id, daily_limit, limit_at) SELECT account, daily_limit, at FROM word ORDER BY account
    ON CONFLICT (waba_id) DO UPDATE SET daily_limit = excluded.daily_limit, limit_at = excluded.limit_at
    WHERE a.limit_at IS NULL OR (excluded.limit_at, -excluded.daily_limit) > (a.limit_at, -a.daily_limit)
    RETURNING a.waba_id, a.daily_limit
)
INSERT INTO notices (kind, subject, body)
SELECT CASE WHEN heard.daily_limit < was.daily_limit THEN 'limit.lowered' ELSE 'limit.raised' END, 'limit:' || heard.waba_id,
    jsonb_build_object('limit', heard.daily_limit, 'was', was.daily_limit)
FROM heard JOIN was ON was.waba_id = heard.waba_id WHERE heard.daily_limit <> was.daily_limit;
