-- Take back the approval of a release: no revision of it is shown any more (P6), and a job that would publish one without
-- another review is cancelled. The caller withdraws the items that it returns in the same transaction, for which the catalog
-- is locked; it is locked before the job, as a publication does. A release that nobody has to approve can be revoked while
-- it is shown, though its job has not ended. verdict: `missing`, `not_approved` or `done`.
create function app.revoke_release(_platform text, _release_id text, _actor text, _reason text, _correlation_id text)
returns table (verdict text, shown text[]) language plpgsql as $$
declare
    _x record;
    _revoked integer[];
begin
    perform app.assert_read_committed();
    perform app.set_platform_filter(_platform);
    perform app.lock_catalog();
    perform from app.publication_keys k
      where k.kind = 'item' and k.key in (select r.key from app.release_keys(_release_id) r) order by k.key for update;
    perform from app.jobs j
      where j.job_id in (select v.job_id from app.revisions v
                          where v.release_id = _release_id and v.approval_status in ('pending_review', 'approved'))
      order by j.id for no key update;
    select x.* into _x from app.releases x where x.release_id = _release_id for no key update;
    if not found then
        return query select 'missing', null::text[];
        return;
    end if;
    if not exists (
        select from app.revisions v
         where v.release_id = _release_id
           and (v.approval_status = 'approved' or v.approval_status = 'pending_review' and not v.approval_required
                and v.revision = (select s.revision from app.shown_publication(_release_id) s))) then
        return query select 'not_approved', null::text[];
        return;
    end if;
    with revoked as (
        update app.revisions v
           set approval_status = 'revoked', decided_by = _actor, decided_at = app.now(), reason = _reason
         where v.release_id = _release_id
           and (v.approval_status = 'approved' or v.approval_status = 'pending_review' and not v.approval_required)
        returning v.revision)
    select array_agg(r.revision order by r.revision) into _revoked from revoked r;
    perform app.record(_x.platform, _actor, 'release.revoked', _x.asset_id, _release_id, _revoked[cardinality(_revoked)], _reason,
                       jsonb_build_object('revisions', _revoked), _correlation_id);
    perform app.cancel(v.job_id, 'its release was revoked', _actor)
       from app.revisions v where v.release_id = _release_id and v.revision = any(_revoked);
    return query
    select 'done', array(
        select k.key from app.release_keys(_release_id) r
          join app.publication_keys k on k.kind = 'item' and k.key = r.key
          join app.publications p on p.id = k.current and p.action <> 'withdraw'
         order by k.key);
end;
$$;
