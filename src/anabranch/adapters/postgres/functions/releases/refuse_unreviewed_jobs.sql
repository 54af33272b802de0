-- AN033 where some publications, which were just made by jobs that no partner ordered, belong to a platform that asks for
-- approvals, and nobody has approved them at a gate of their jobs: another person than the submitter, where the platform wants
-- one (P4, P6).
create function app.refuse_unreviewed_jobs(_made uuid[]) returns void language plpgsql stable as $$
declare
    _bad record;
begin
    select f.id, f.approval into _bad
      from (select distinct p.job_id
              from app.publications p left join app.published_revisions r on r.publication = p.source
             where p.id = any(_made) and p.action in ('publish', 'replace') and r.publication is null) j
     cross join lateral app.find_submitter(j.job_id) root
      join app.platforms f on f.id = root.owner and f.approval <> 'none'
     where not exists (
           select from app.job_line(j.job_id) l join app.signals s on s.job = l.id
            where s.payload @> '{"approved": true}'
              and (f.approval <> 'other_approver' or not app.is_same_person(s.sender, root.actor)))
     limit 1;
    if found then
        raise exception 'platform % publishes nothing that was not approved%', _bad.id,
            case when _bad.approval = 'other_approver' then ' by another person than the submitter' else '' end
            using errcode = 'AN033';
    end if;
end;
$$;
