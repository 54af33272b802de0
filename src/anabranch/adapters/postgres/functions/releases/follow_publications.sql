-- A release decides what its items show. Publications remember the revision that made their content; nothing of a release is
-- shown before it is approved, where that is required, nor after it was rejected or revoked (P6), nor of a deleted asset:
-- AN030. An item of a release is published by orders of that release alone, and never goes back to an older revision but by
-- a rollback: AN031. That holds for all items that a release has shown. What else a job publishes for a platform that asks
-- for approvals was approved at a gate: AN033. Who may read it follows from its clearance. What happened is in the audit
-- (P7). Its plans are for single items, however many the first publication of a session has.
create function app.follow_publications() returns trigger language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
    _before constant text := coalesce(current_setting('anabranch.platform', true), '');
    _bad record;
begin
    perform app.set_platform_filter('*');
    insert into app.published_revisions (publication, release_id, revision, platform)
    select p.id, v.release_id, v.revision, v.platform
      from (select distinct m.job_id from made m where m.kind = 'item' and m.source = m.id) j
     cross join lateral app.find_revision(j.job_id) v
      join made p on p.kind = 'item' and p.job_id = j.job_id and p.source = p.id;
    perform from app.releases x
      where x.release_id in (select r.release_id from made p join app.published_revisions r on r.publication = p.source)
      order by x.release_id for share;  -- so that its clearance and its approval are those that are committed
    select p.key, case
           when v.approval_status in ('rejected', 'revoked', 'expired') or v.approval_required and v.approval_status <> 'approved'
                or a.deleted_at is not null then 'AN030' else 'AN031' end as code
      into _bad
      from made p
      left join lateral (
           select x.release_id from app.releases x
            where x.collection = split_part(p.key, '/', 1) and x.item_id = split_part(p.key, '/', 2)
            union all
           (select n.release_id
              from app.publications b join app.published_revisions n on n.publication = b.id
             where b.kind = p.kind and b.key = p.key and b.id <> p.id order by b.number desc limit 1)
            limit 1) x on true
      left join app.published_revisions r on r.publication = p.source
      left join app.revisions v on v.release_id = r.release_id and v.revision = r.revision
      left join app.releases o on o.release_id = r.release_id
      left join app.assets a on a.asset_id = o.asset_id
     where p.kind = 'item' and p.action <> 'withdraw'
       and (v.approval_status in ('rejected', 'revoked', 'expired') or v.approval_required and v.approval_status <> 'approved'
            or a.deleted_at is not null
            or x.release_id is distinct from r.release_id and x.release_id is not null
            or p.action in ('publish', 'replace') and exists (
               select from app.published_revisions n where n.release_id = r.release_id and n.revision > r.revision))
     limit 1;
    if _bad is not null then
        raise exception '%', case _bad.code
            when 'AN030' then format('item %s belongs to a release that is not approved', _bad.key)
            else format('item %s belongs to a release, which shows something else', _bad.key) end using errcode = _bad.code;
    end if;
    select f.id as platform into _bad
      from (select distinct p.job_id from made p
              left join app.published_revisions r on r.publication = p.source
             where p.kind = 'item' and p.action in ('publish', 'replace') and r.publication is null) j
     cross join lateral (select l.platform from app.job_line(j.job_id) l order by l.depth desc limit 1) root
      join app.platforms f on f.id = root.platform and f.approval <> 'none'
     where not exists (select from app.job_line(j.job_id) l join app.signals s on s.job = l.id
                        where s.payload @> '{"approved": true}')
     limit 1;
    if found then
        raise exception 'platform % publishes nothing that was not approved', _bad.platform using errcode = 'AN033';
    end if;
    update app.publication_keys k set public = x.clearance = 'public'
      from made p
      join app.published_revisions r on r.publication = p.source
      join app.releases x on x.release_id = r.release_id
     where k.kind = p.kind and k.key = p.key and k.owner = x.platform and k.public <> (x.clearance = 'public');
    perform app.record(
        r.platform, p.actor,
        case when p.action = 'restore' then 'release.restored'
             when p.action = 'rollback' then 'release.rolled_back'
             when p.action <> 'withdraw' then 'release.published'
             when exists (select from app.shown_items(r.release_id) s where s.key not in (select m.key from made m))
                  then 'item.withdrawn'
             else 'release.withdrawn' end,
        x.asset_id, r.release_id, r.revision, p.reason, jsonb_build_object('item', p.key, 'number', p.number),
        coalesce((select j.correlation_id from app.jobs j where j.job_id = p.job_id),
                 nullif(current_setting('anabranch.correlation_id', true), ''), p.id::text))
       from made p
       join app.published_revisions r on r.publication = p.source
       join app.releases x on x.release_id = r.release_id;
    perform app.set_platform_filter(_before);
    return null;
end;
$$;

create trigger follow_publications after insert on app.publications
    referencing new table as made for each statement execute function app.follow_publications();
