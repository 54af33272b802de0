-- What a rollback of a release does, by item (P5): each shows what it showed last with an earlier revision, and those that
-- this revision did not have are withdrawn. The revision is the newest below the one that is shown, of those that can be shown
-- whole if there are some; so a second rollback goes further back. Or it is _to, or that of a publication of the release's
-- first item, as app.shown_publication shows its number: that item shows this very publication. expected: the number that each
-- has now. No row where there is no such revision; what else is against it is refused when it is done.
create function app.plan_rollback(_platform text, _release_id text, _number integer, _to integer default null)
returns table (key text, action app.publication_action, number integer, expected integer, source uuid)
language plpgsql stable as $$
declare
    _first record;
    _source uuid;
    _revision integer;
begin
    perform app.set_platform_filter(_platform);
    select k.key, k.number, r.revision into _first
      from app.release_keys(_release_id) i
      join app.publication_keys k on k.kind = 'item' and k.key = i.key
      join app.publications p on p.id = k.current
      join app.published_revisions r on r.publication = p.source
      join app.releases x on x.release_id = _release_id
     order by p.action = 'withdraw', k.key = x.collection || '/' || x.item_id desc, k.number desc, k.key limit 1;
    if _to is not null then
        select r.revision into _revision
          from app.published_revisions r where r.release_id = _release_id and r.revision = _to limit 1;
    elsif _number is null then
        select n.revision into _revision
          from (select distinct on (p.key, r.revision) r.revision,
                       (p.source = k.current or exists (
                            select from app.former_publications f where f.publication = p.source))
                       and not app.is_revoked(p.source) as available
                  from app.release_keys(_release_id) i
                  join app.publication_keys k on k.kind = 'item' and k.key = i.key
                  join app.publications p on p.kind = k.kind and p.key = k.key and p.action <> 'withdraw'
                  join app.published_revisions r on r.publication = p.source and r.revision < _first.revision
                 order by p.key, r.revision, p.number desc) n
         group by n.revision order by bool_and(n.available) desc, n.revision desc limit 1;
    else
        select s.source into _source from app.find_source('item', _first.key, 'rollback', _number) s;
        select r.revision into _revision from app.published_revisions r where r.publication = _source;
        if _revision is null then
            return query select _first.key, 'rollback'::app.publication_action, _number, _first.number, null::uuid
                          where _first.key is not null;
            return;
        end if;
    end if;
    return query
    select k.key, case when c.id is null then 'withdraw' else 'rollback' end::app.publication_action, c.number, k.number, c.id
      from app.release_keys(_release_id) i
      join app.publication_keys k on k.kind = 'item' and k.key = i.key
      join app.publications p on p.id = k.current
      left join lateral (
           select m.id, m.number
             from app.publications m join app.published_revisions r on r.publication = m.id
            where m.kind = k.kind and m.key = k.key and r.release_id = _release_id and r.revision = _revision
            order by m.id is not distinct from _source desc, m.number desc limit 1) c on true
     where _revision is not null
       and case when c.id is null then p.action <> 'withdraw'
                else p.action = 'withdraw' or p.source <> c.id or _number is not null and k.key = _first.key end
     order by 2, 1;
end;
$$;
