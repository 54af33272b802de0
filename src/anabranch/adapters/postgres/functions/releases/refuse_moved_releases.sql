-- AN031 where some publications, which were just made, show something else than their release does: an item of a release, also
-- one that it has shown besides its own, is published by orders of that release alone. A job does not publish an older
-- revision after a newer one, nor the revision that its release has shown before and does not show any more: what a rollback
-- or a withdrawal did is not undone by a job that is tried again, or by the rest of it (P5).
create function app.refuse_moved_releases(_made uuid[]) returns void language plpgsql stable as $$
declare
    _key text;
begin
    select p.key into _key
      from app.publications p
      left join app.published_revisions r on r.publication = p.source
     cross join lateral (
           select x.release_id from app.releases x
            where x.collection = split_part(p.key, '/', 1) and x.item_id = split_part(p.key, '/', 2)
            union all
           (select n.release_id
              from app.publications b join app.published_revisions n on n.publication = b.id
             where b.kind = p.kind and b.key = p.key and b.id <> p.id order by b.number desc limit 1)
            limit 1) x
     where p.id = any(_made) and p.action <> 'withdraw' and x.release_id is distinct from r.release_id
     limit 1;
    if not found then
        select v.key into _key
          from (select r.release_id, r.revision, min(p.key) as key
                  from app.publications p join app.published_revisions r on r.publication = p.source
                 where p.id = any(_made) and p.action in ('publish', 'replace')
                 group by r.release_id, r.revision) v
         where exists (select from app.published_revisions n
                        where n.release_id = v.release_id and n.revision > v.revision)
            or exists (select from app.published_revisions n
                        where n.release_id = v.release_id and n.revision = v.revision and n.publication <> all(_made))
               and not exists (select from app.shown_items(v.release_id) s where s.revision = v.revision)
         limit 1;
    end if;
    if found then
        raise exception 'item % belongs to a release, which shows something else', _key using errcode = 'AN031';
    end if;
end;
$$;
