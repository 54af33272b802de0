-- AN030 where some publications, which were just made, show a revision that is not approved, where that is required, or was
-- rejected or revoked (P6), or one of a deleted asset. The caller has locked their releases.
create function app.refuse_unapproved_revisions(_made uuid[]) returns void language plpgsql stable as $$
declare
    _key text;
begin
    select p.key into _key
      from app.publications p
      join app.published_revisions r on r.publication = p.source
      join app.revisions v on v.release_id = r.release_id and v.revision = r.revision
      join app.releases x on x.release_id = r.release_id
      join app.assets a on a.asset_id = x.asset_id
     where p.id = any(_made) and p.action <> 'withdraw'
       and (v.approval_status in ('rejected', 'revoked', 'expired') or v.approval_required and v.approval_status <> 'approved'
            or a.deleted_at is not null)
     limit 1;
    if found then
        raise exception 'item % belongs to a release that is not approved', _key using errcode = 'AN030';
    end if;
end;
$$;
