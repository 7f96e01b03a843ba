-- Fallback numbers. What they may claim is fallback_floor's to say, wherever it
-- is asked; here people are told.

-- name: TellFallbacks :many
-- A running campaign's fallback numbers have begun to stand in for its primaries,
-- or have stepped back: one notice a change, whoever looks. They have not begun
-- while all of them are stopped too; they step back when a primary is able again.
-- While the platform's breaker is open nobody sends, and nothing is told.
WITH due AS MATERIALIZED (
    SELECT c.id, c.fallback_since IS NULL AS begins FROM campaigns c
    WHERE c.state = 'running' AND EXISTS (SELECT FROM campaign_numbers cn JOIN numbers n ON n.id = cn.number_id
            WHERE cn.campaign_id = c.id AND cn.role = 'fallback' AND (n.enabled OR c.fallback_since IS NOT NULL))
      AND EXISTS (SELECT FROM breakers b WHERE b.scope = 'host' AND b.state = 'closed')
      AND (fallback_floor(c.id) IS NOT DISTINCT FROM 0) = (c.fallback_since IS NULL)
    ORDER BY c.id FOR NO KEY UPDATE OF c
), moved AS (
    UPDATE campaigns c SET fallback_since = CASE WHEN due.begins THEN now() END
    FROM due WHERE c.id = due.id AND c.state = 'running' AND (c.fallback_since IS NULL) = due.begins
    RETURNING c.id, c.name, due.begins
), told AS (
    INSERT INTO notices (kind, subject, body)
    SELECT CASE WHEN begins THEN 'campaign.fallback_began' ELSE 'campaign.fallback_ended' END, 'campaign:' || id,
        jsonb_build_object('campaign', jsonb_build_object('id', id, 'name', name),
            'numbers', (SELECT jsonb_agg(cn.number_id ORDER BY cn.number_id) FROM campaign_numbers cn JOIN numbers n ON n.id = cn.number_id
                WHERE cn.campaign_id = moved.id AND cn.role = CASE WHEN begins THEN 'fallback' ELSE 'primary' END AND n.enabled))
        || CASE WHEN begins THEN jsonb_build_object('reason', (SELECT string_agg(cn.number_id || ' ' || a.why, '; ' ORDER BY cn.number_id)
                FROM campaign_numbers cn JOIN number_absences a ON a.number_id = cn.number_id WHERE cn.campaign_id = moved.id AND cn.role = 'primary'))
            ELSE '{}' END
    FROM moved ORDER BY id
)
SELECT id, name, begins::boolean AS begins FROM moved ORDER BY id;
