-- Remove the files and tables of publications that were replaced longer ago than _revisions, or withdrawn longer ago than _withdrawn;
-- their objects are to be removed if a job made them (others stay: they may be somebody's originals), and their history
-- stays. The key of each is locked, so that nobody brings it back
-- meanwhile; keys that others hold wait for the next round. Returns how many publications there were.
create function app.expire_publications(_revisions interval, _withdrawn interval, _batch integer)
returns integer language plpgsql as $$
declare
    _former record;
    _removed integer := 0;
begin
    perform app.assert_read_committed();
    if not app.may_remove() then
        return 0;
    end if;
    for _former in
        select f.publication, p.kind, p.key
          from app.former_publications f join app.publications p on p.id = f.publication
         where f.hidden_at < app.now() - least(_revisions, _withdrawn)
           and f.hidden_at < app.now() - case when f.withdrawn then _withdrawn else _revisions end
         order by f.hidden_at limit _batch
    loop
        perform from app.publication_keys k where k.kind = _former.kind and k.key = _former.key for update skip locked;
        continue when not found;
        delete from app.former_publications f
         where f.publication = _former.publication
           and f.hidden_at < app.now() - case when f.withdrawn then _withdrawn else _revisions end;
        continue when not found;
        perform app.lock_objects(array(
            select f.key from app.published_files f where f.publication = _former.publication));
        with gone as (
            delete from app.published_files f where f.publication = _former.publication returning f.tier, f.key)
        insert into app.expired_objects (tier, key)
        select g.tier, g.key from gone g where g.tier in ('silver', 'gold') and g.key like 'jobs/%'
            on conflict do nothing;
        delete from app.published_tables t where t.publication = _former.publication;
        _removed := _removed + 1;
    end loop;
    return _removed;
end;
$$;
