-- The collections that a platform may see.
select collection from app.visible_collections($1)
