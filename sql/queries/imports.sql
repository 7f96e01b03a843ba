-- A file becomes rows. The rows themselves go by COPY; what stands here is the
-- truth about how far it came, committed with them.

-- name: LockImport :exec
-- Held by the connection that writes, so it ends with the writer.
SELECT pg_advisory_lock(hashtextextended('weir.import', @campaign::bigint));

-- name: OpenImport :many
-- Begins or resumes. Until the first batch is committed, another file may take
-- the place of the first one.
INSERT INTO campaign_imports AS i (campaign_id, file, head_sha256, size)
SELECT c.id, @file::text, @head::bytea, @size::bigint FROM campaigns c
WHERE c.id = @campaign::bigint AND c.state = 'importing' AND c.state_reason IS NULL
ON CONFLICT (campaign_id) DO UPDATE SET
    file = CASE WHEN i.line = 0 THEN excluded.file ELSE i.file END,
    head_sha256 = CASE WHEN i.line = 0 THEN excluded.head_sha256 ELSE i.head_sha256 END,
    size = CASE WHEN i.line = 0 THEN excluded.size ELSE i.size END
RETURNING i.file, i.head_sha256, i.size, i.line, i.rows_digest, i.rows_read, i.accepted, i.rejected, i.duplicate, i.defaulted,
    (SELECT c.created_at FROM campaigns c WHERE c.id = i.campaign_id)::timestamptz AS created_at,
    (NOT EXISTS (SELECT FROM campaign_zones z WHERE z.campaign_id = i.campaign_id AND z.zone = 0))::boolean AS zoned;

-- name: ImportZones :many
-- The zones that an import has met so far.
SELECT z.zone, z.tz::text AS tz FROM campaign_zones z WHERE z.campaign_id = @campaign::bigint AND z.tz IS NOT NULL;

-- name: AddZones :exec
-- Closed, until their hours have been looked up.
INSERT INTO campaign_zones (campaign_id, zone, tz, closes_at)
SELECT @campaign::bigint, unnest(@zones::smallint[]), unnest(@tzs::text[]), '-infinity';

-- name: NextRecipientBlock :one
-- The first id of a block of 10 000. Blocks of a lost import are not used again.
SELECT nextval('recipient_blocks')::bigint;

-- name: AddMaybeSeen :execrows
-- Rows whose phone may be in the campaign already; the unique index decides,
-- and the first line wins. Params travel as array literals.
WITH maybe AS (
    SELECT unnest(@ids::bigint[]) AS id, unnest(@lines::bigint[]) AS line, unnest(@phones::text[]) AS phone, unnest(@params::text[]) AS params, unnest(@zones::smallint[]) AS zone
), added AS (
    INSERT INTO recipient_params (id, campaign_id, line, phone, params)
    SELECT id, @campaign::bigint, line, phone, params::text[] FROM maybe ORDER BY line
    ON CONFLICT (phone, campaign_id) DO NOTHING RETURNING id
)
INSERT INTO recipients (id, campaign_id, due_at, zone)
SELECT added.id, @campaign::bigint, @due_at::timestamptz, maybe.zone FROM added JOIN maybe ON maybe.id = added.id;

-- name: AddRanges :exec
-- Runs of ids that were handed out, in order; one that goes on where the last
-- range ended makes it longer.
WITH run AS (
    SELECT unnest(@los::bigint[]) AS lo, unnest(@his::bigint[]) AS hi
), grown AS (
    UPDATE campaign_ranges g SET hi = run.hi FROM run WHERE g.campaign_id = @campaign::bigint AND g.hi + 1 = run.lo
    RETURNING run.lo AS lo
)
INSERT INTO campaign_ranges (campaign_id, lo, hi)
SELECT @campaign::bigint, run.lo, run.hi FROM run WHERE NOT EXISTS (SELECT FROM grown WHERE grown.lo = run.lo);

-- name: AdvanceImport :one
-- A batch's truth. It stands only on the line that this import saw last: of
-- two importers one loses its batch, whatever became of the lock.
WITH moved AS (
    UPDATE campaign_imports i SET line = @line::bigint, rows_digest = @digest::bigint, rows_read = i.rows_read + @rows_read::bigint, accepted = i.accepted + @accepted::bigint,
        rejected = i.rejected + @rejected::bigint, duplicate = i.duplicate + @duplicate::bigint, defaulted = i.defaulted + @defaulted::bigint
    FROM campaigns c
    WHERE i.campaign_id = @campaign::bigint AND i.line = @was::bigint AND i.done_at IS NULL AND c.id = i.campaign_id AND c.state = 'importing'
    RETURNING i.campaign_id
), counted AS (
    INSERT INTO campaign_counts (campaign_id, status, n)
    SELECT campaign_id, 'pending', @accepted::bigint FROM moved WHERE @accepted::bigint > 0
)
SELECT count(*) FROM moved;

-- name: FinishImport :execrows
WITH done AS (
    UPDATE campaign_imports SET done_at = now(), sha256 = @sum::bytea
    WHERE campaign_id = @campaign::bigint AND line = @line::bigint AND done_at IS NULL RETURNING campaign_id
)
UPDATE campaigns c SET state = 'draft' FROM done WHERE c.id = done.campaign_id AND c.state = 'importing';
