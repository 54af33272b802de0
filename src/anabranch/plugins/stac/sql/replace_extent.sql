-- Widen a collection; how it stands.
select app.replace_extent(%(collection)s, %(extent)s)
