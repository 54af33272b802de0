-- Some objects that no publication uses any more, as addresses in their order after one; those that one uses again are
-- kept, and forgotten here. Objects of jobs whose objects others publish or expire meanwhile wait for the next round; what
-- was answered here is never published again (app.lock_objects).
create function app.find_expired_objects(_batch integer, _after text default '') returns table (address text)
language plpgsql as $$
declare
    _held integer[];
begin
    perform app.assert_read_committed();
    _held := array(select b from generate_series(0, 63) b where pg_try_advisory_xact_lock(1635017062, b));
    delete from app.expired_objects o using app.published_files f
     where f.tier = o.tier and f.key = o.key and app.object_lock(o.key) = any(_held);
    return query
    select o.tier || '://' || o.key from app.expired_objects o
     where (o.tier, o.key) > (split_part(_after, '://', 1), substr(_after, strpos(_after, '://') + 3))
       and app.object_lock(o.key) = any(_held)
     order by o.tier, o.key limit _batch;
end;
$$;
