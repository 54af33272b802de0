-- Write to the audit what some publications, which were just made, did to their releases (P7): a line, and a message, for each
-- release and action, with all items of it. A withdrawal is one of the release where it leaves nothing shown.
create function app.record_publications(_made uuid[]) returns void language plpgsql as $$
begin
    perform app.record(d.platform, d.actor, d.action, x.asset_id, d.release_id, d.revision, d.reason,
                       jsonb_build_object('items', d.items), d.correlation_id)
       from (select r.platform, r.release_id, r.revision, p.actor, p.reason, a.action,
                    jsonb_agg(jsonb_build_object('item', p.key, 'number', p.number) order by p.key) as items,
                    coalesce(min(j.correlation_id), nullif(current_setting('anabranch.correlation_id', true), ''),
                             min(p.id::text)) as correlation_id
               from app.publications p
               join app.published_revisions r on r.publication = p.source
               left join app.jobs j on j.job_id = p.job_id
              cross join lateral (
                    select case
                           when p.action = 'restore' then 'release.restored'
                           when p.action = 'rollback' then 'release.rolled_back'
                           when p.action <> 'withdraw' then 'release.published'
                           when exists (
                                select from app.shown_items(r.release_id) s
                                 where s.key not in (select m.key from app.publications m where m.id = any(_made)))
                                then 'item.withdrawn'
                           else 'release.withdrawn' end as action) a
              where p.id = any(_made)
              group by r.platform, r.release_id, r.revision, p.actor, p.reason, a.action
              order by r.release_id, r.revision) d
       join app.releases x on x.release_id = d.release_id;
end;
$$;
