-- Some objects that no publication uses any more, as addresses; those that one uses again are kept, and forgotten here.
create function app.find_expired_objects(_batch integer) returns table (address text) language plpgsql as $$
begin
    delete from app.expired_objects o using app.published_files f where f.tier = o.tier and f.key = o.key;
    return query select o.tier || '://' || o.key from app.expired_objects o order by o.tier, o.key limit _batch;
end;
$$;
