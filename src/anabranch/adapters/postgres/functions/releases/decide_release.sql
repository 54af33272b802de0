-- Approve or reject the newest revision of a release that waits for it: the release, the audit and the signal of the job's gate
-- are written together. _revision: the one that was reviewed; null: the newest. verdict: `missing`, `moved` (another revision
-- came after it), `not_completed` (P4), `decided` (it was before), `same` (equally), `own` (the platform wants another approver
-- than the submitter), `deleted` (its asset was), or `done`, with the right to advance the job.
create function app.decide_release(
    _platform text, _release_id text, _revision integer, _approved boolean, _actor text, _reason text, _correlation_id text,
    _session bigint
) returns table (verdict text, job_id text, right_id bigint) language plpgsql as $$
declare
    _v record;
    _answer text;
    _wanted constant app.approval_status := case when _approved then 'approved' else 'rejected' end;
begin
    perform app.assert_read_committed();
    perform app.set_platform_filter(_platform);
    -- Asset, job and revision, in the order of app.submit_release: no revision comes after the newest meanwhile.
    perform from app.assets a
      where a.asset_id = (select x.asset_id from app.releases x where x.release_id = _release_id) for no key update;
    perform from app.jobs j
      where j.job_id = (select v.job_id from app.revisions v where v.release_id = _release_id order by v.revision desc limit 1)
        for no key update;
    select v.*, x.asset_id, p.approval, a.deleted_at into _v
      from app.revisions v
      join app.releases x using (release_id)
      join app.assets a using (asset_id)
      join app.platforms p on p.id = v.platform
     where v.release_id = _release_id order by v.revision desc limit 1 for no key update of v;
    if not found then
        return query select 'missing', null, null::bigint;
        return;
    end if;
    verdict := case
        when _v.revision <> _revision then 'moved'
        when _v.approval_status = _wanted then 'same'
        when _v.approval_status <> 'pending_review' then 'decided'
        when _v.processing_status <> 'completed' then 'not_completed'
        when _approved and _v.deleted_at is not null then 'deleted'
        when _approved and _v.approval = 'other_approver' and app.is_same_person(_v.submitted_by, _actor) then 'own'
        else 'done' end;
    if verdict = 'done' then
        perform set_config('anabranch.deciding', _v.job_id, true);
        select s.verdict, s.right_id into _answer, right_id
          from app.signal(_v.job_id, app.find_gate(_v.job_id),
                          jsonb_strip_nulls(jsonb_build_object('approved', _approved, 'why', _reason)), _actor, _session) s;
        perform set_config('anabranch.deciding', '', true);
        if _answer <> 'accepted' then
            verdict := 'not_completed';  -- the gate is not there any more
        end if;
    end if;
    if verdict = 'done' then
        update app.revisions v set approval_status = _wanted, decided_by = _actor, decided_at = app.now(), reason = _reason
         where v.release_id = _release_id and v.revision = _v.revision;
        perform app.record(_v.platform, _actor, 'release.' || _wanted, _v.asset_id, _release_id, _v.revision, _reason, null,
                           _correlation_id);
    end if;
    job_id := _v.job_id;
    return next;
end;
$$;
