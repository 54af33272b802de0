-- The version of pgstac that is installed.
select version from pgstac.migrations order by datetime desc, version desc limit 1
