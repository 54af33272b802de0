-- Items that fit a search, as pgstac has them; the search is text, as the driver knows no type of its own for it.
select * from search($1::text::jsonb)
