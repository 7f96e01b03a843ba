package migrations

// For tests with migrations of their own, such as ones that Postgres refuses.
var (
	UpFiles   = up
	DownFiles = down
	Embedded  = embedded
)
