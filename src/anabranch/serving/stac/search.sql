-- Items that match a search, as pgstac stores them; the search is passed as text, since the driver has no type of its own for it.
select * from search($1::text::jsonb)
