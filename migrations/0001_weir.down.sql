DROP VIEW number_absences;
DROP TABLE audit, replays, notice_endpoints, notice_log, notices, breaker_events, breaker_reports, campaign_counts, webhook_events, breakers, suppressions, attempts, unknowns, claims,
    recipient_params, recipients, campaign_ranges, campaign_imports, campaign_health, campaign_failures, campaign_zones, campaign_reports, campaign_controls, campaign_acks, campaign_numbers,
    campaigns, receivers, number_traffic, lease_events, number_leases, nodes, templates, accounts, numbers, instance;
DROP FUNCTION breaker_moved;
DROP FUNCTION work_waits;
DROP FUNCTION number_held;
DROP FUNCTION fallback_floor;
DROP FUNCTION campaign_ends;
DROP FUNCTION cluster_identity;
DROP SEQUENCE recipient_blocks;
DROP TYPE recipient_status;
