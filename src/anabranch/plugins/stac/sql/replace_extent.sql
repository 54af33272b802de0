-- Replace the extent of a collection; returns its document.
select app.replace_extent(%(collection)s, %(extent)s)
