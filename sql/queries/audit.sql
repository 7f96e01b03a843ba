-- What operators did against the usual rules. The statements that do it write it.

-- name: Audit :many
SELECT a.at, a.who, a.what, a.subject, a.body FROM audit a WHERE a.at >= @since::timestamptz ORDER BY a.id;
