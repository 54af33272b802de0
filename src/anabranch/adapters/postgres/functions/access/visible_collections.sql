-- The collections that a platform may see, as app.may_read decides; of an anonymous caller those with public items.
create function app.visible_collections(_platform text) returns table (collection text) language sql stable as $$
    select k.key from app.publication_keys k where k.kind = 'collection' and k.owner = _platform and _platform <> ''
    union
    select w.collection from app.collection_writers w where w.platform = _platform
    union
    select split_part(k.key, '/', 1) from app.publication_keys k where _platform = '' and k.public and k.kind = 'item'
    union
    select c.id from app.collections c where _platform is null;
$$;
