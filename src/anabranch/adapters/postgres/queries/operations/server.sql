-- Which server this is, and how far its schema is migrated.
select current_setting('server_version') as server_version, (select max(number) from app.migrations) as migration;
