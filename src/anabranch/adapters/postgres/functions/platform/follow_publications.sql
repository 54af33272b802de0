-- Nothing of a release is shown before it is approved, where that is required, nor after it was revoked (P6). AN030. What is
-- cleared as public is readable without a key from its first publication on.
create function app.follow_publications() returns trigger language plpgsql as $$
declare
    _before constant text := coalesce(current_setting('anabranch.platform', true), '');
    _bad text;
begin
    perform app.see('*');
    select p.key into _bad
      from made p
      join app.publications s on s.id = p.source
     cross join lateral app.job_line(s.job_id) l
      join app.revisions v on v.job_id = l.job_id
     where p.action <> 'withdraw' and (v.approval_required or v.approval_status in ('revoked', 'expired'))
       and v.approval_status <> 'approved'
     limit 1;
    update app.publication_keys k set public = true
      from made p join app.releases r on r.collection = split_part(p.key, '/', 1) and r.item_id = split_part(p.key, '/', 2)
     where p.kind = 'item' and k.kind = p.kind and k.key = p.key and k.owner = r.platform and r.clearance = 'public'
       and not k.public;
    perform app.see(_before);
    if _bad is not null then
        raise exception 'item % belongs to a release that is not approved', _bad using errcode = 'AN030';
    end if;
    return null;
end;
$$;

create trigger follow_publications after insert on app.publications
    referencing new table as made for each statement execute function app.follow_publications();
