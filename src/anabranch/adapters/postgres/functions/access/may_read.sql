-- Whether a platform may see an item of a collection, public or not: those of its own collections, and of those that it may
-- write to. Null: all. Empty: an anonymous caller, who may see what is public (S1). In plpgsql, which keeps its plan: it is
-- asked for with every file and tile.
create function app.may_read(_platform text, _collection text, _public boolean) returns boolean language plpgsql stable as $$
begin
    return case when _platform is null then true
                when _platform = '' then _public
                else exists (select from app.publication_keys k
                              where k.kind = 'collection' and k.key = _collection and k.owner = _platform)
                  or exists (select from app.collection_writers w where w.collection = _collection and w.platform = _platform)
                end;
end;
$$;
