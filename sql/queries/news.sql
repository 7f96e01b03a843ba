-- What the platform says by webhook of accounts, templates and numbers. Each
-- statement keeps the word if it is the later one, and says whether it stands:
-- what a word that stands asks for is asked for at every delivery of it, and
-- leaves alone what an operator has let go on since.

-- name: HearTemplate :many
-- A running campaign that sends it from the account, and does not merely fall back
-- on it, where the word forbids it.
-- Who stopped for it is told of when it may be sent again.
WITH heard AS (
    INSERT INTO templates AS t (waba_id, name, language, said, said_bears, said_reason, said_at)
    VALUES (@account::text, @name::text, @language::text, @word::text, @bears::text, @reason::text, @at::timestamptz)
    ON CONFLICT (waba_id, name, language) DO UPDATE SET said = excluded.said, said_bears = excluded.said_bears,
        said_reason = excluded.said_reason, said_at = excluded.said_at
    WHERE (excluded.said_at, excluded.said_bears = 'stop') > (t.said_at, t.said_bears = 'stop')
    RETURNING t.waba_id
), mine AS (
    SELECT DISTINCT ON (c.id) c.id, c.name, c.state, cn.role, n.id AS number_id,
        c.state <> 'running' AND NOT c.stopped AND c.state_reason <> 'paused by the operator' AS stopped_itself FROM campaigns c
    JOIN campaign_numbers cn ON cn.campaign_id = c.id JOIN numbers n ON n.id = cn.number_id AND n.waba_id = @account::text
    WHERE c.template = @name::text AND c.language = @language::text AND c.state IN ('running', 'pausing', 'paused')
    ORDER BY c.id, cn.role DESC, n.id
), told AS (
    INSERT INTO notices (kind, subject, body)
    SELECT CASE @bears::text WHEN 'go' THEN 'template.approved' ELSE 'template.flagged' END, concat_ws('/', 'template:' || @account::text, @name::text, @language::text),
        jsonb_build_object('template', @name::text, 'reason', @reason::text, 'campaigns', coalesce((SELECT jsonb_agg(mine.name ORDER BY mine.id) FROM mine
            WHERE @bears::text = 'warning' OR mine.stopped_itself), '[]'))
    FROM heard WHERE @bears::text = 'warning' OR (@bears::text = 'go' AND (
        EXISTS (SELECT FROM mine WHERE mine.stopped_itself)
        OR EXISTS (SELECT FROM templates t WHERE t.waba_id = @account::text AND t.name = @name::text AND t.language = @language::text AND t.said_bears = 'warning')))
)
SELECT mine.id::bigint AS campaign_id, mine.number_id::text AS number_id FROM mine
WHERE mine.state = 'running' AND mine.role = 'primary' AND @bears::text = 'stop' AND (EXISTS (SELECT FROM heard) OR EXISTS (SELECT FROM templates t
    WHERE t.waba_id = @account::text AND t.name = @name::text AND t.language = @language::text AND t.said_at = @at::timestamptz AND t.said = @word::text))
ORDER BY mine.id LIMIT 1;

-- name: HearAccount :many
-- A number of the account, where the word forbids it to send.
WITH heard AS (
    INSERT INTO accounts AS a (waba_id, said, said_bears, said_reason, said_at)
    VALUES (@account::text, @word::text, @bears::text, @reason::text, @at::timestamptz)
    ON CONFLICT (waba_id) DO UPDATE SET said = excluded.said, said_bears = excluded.said_bears,
        said_reason = excluded.said_reason, said_at = excluded.said_at
    WHERE a.said_at IS NULL OR (excluded.said_at, excluded.said_bears = 'stop') > (a.said_at, a.said_bears = 'stop')
    RETURNING a.waba_id
), told AS (
    INSERT INTO notices (kind, subject, body)
    SELECT CASE @bears::text WHEN 'go' THEN 'account.reinstated' ELSE 'account.warned' END, 'account:' || waba_id,
        jsonb_build_object('reason', @reason::text, 'numbers', (SELECT coalesce(jsonb_agg(n.id ORDER BY n.id), '[]') FROM numbers n
            WHERE n.waba_id = heard.waba_id AND (@bears::text = 'warning' OR NOT n.enabled)))
    FROM heard WHERE @bears::text IN ('go', 'warning') AND EXISTS (SELECT FROM numbers n WHERE n.waba_id = heard.waba_id)
)
SELECT n.id FROM numbers n
WHERE n.waba_id = @account::text AND @bears::text = 'stop' AND (EXISTS (SELECT FROM heard) OR EXISTS (SELECT FROM accounts a
    WHERE a.waba_id = @account::text AND a.said_at = @at::timestamptz AND a.said = @word::text))
ORDER BY n.id LIMIT 1;

-- name: HearNumber :exec
-- The platform names it by how it shows, not by its id.
WITH heard AS (
    UPDATE numbers n SET said = @word::text, said_bears = @bears::text, said_at = @at::timestamptz
    WHERE n.waba_id = @account::text AND regexp_replace(n.display, '[^0-9]', '', 'g') = @phone::text
      AND (n.said_at IS NULL OR (@at::timestamptz, @bears::text = 'warning') > (n.said_at, n.said_bears = 'warning'))
    RETURNING n.id
)
INSERT INTO notices (kind, subject, body)
SELECT CASE @bears::text WHEN 'warning' THEN 'quality.worse' ELSE 'quality.better' END, 'quality:' || id,
    jsonb_build_object('numbers', jsonb_build_array(id), 'reason', @reason::text, 'advice', @advice::text)
FROM heard WHERE @bears::text IN ('warning', 'go');

-- name: HearLimit :exec
WITH was AS (
    SELECT a.daily_limit FROM accounts a WHERE a.waba_id = @account::text
), heard AS (
    INSERT INTO accounts AS a (waba_id, daily_limit, limit_at) VALUES (@account::text, @daily_limit::bigint, @at::timestamptz)
    ON CONFLICT (waba_id) DO UPDATE SET daily_limit = excluded.daily_limit, limit_at = excluded.limit_at
    WHERE a.limit_at IS NULL OR (excluded.limit_at, -excluded.daily_limit) > (a.limit_at, -a.daily_limit)
    RETURNING a.waba_id, a.daily_limit
)
INSERT INTO notices (kind, subject, body)
SELECT CASE WHEN heard.daily_limit < was.daily_limit THEN 'limit.lowered' ELSE 'limit.raised' END, 'limit:' || heard.waba_id,
    jsonb_build_object('limit', heard.daily_limit, 'was', was.daily_limit)
FROM heard, was WHERE heard.daily_limit <> was.daily_limit;
