-- Fields have owners: what a job did to a revision is written only by the triggers that follow jobs, and what people decide
-- only by calls. A job that ends decides in two cases: one that nobody has to approve, and a review whose time is up. What a
-- revision is made for never changes, and a decision is not taken back but by a revoke (P4).
create function app.guard_revision() returns trigger language plpgsql as $$
declare
    _follows constant boolean := pg_trigger_depth() > 1;
begin
    if (new.release_id, new.revision, new.platform, new.order_hash, new.approval_required, new.submitted_by, new.made_at)
       is distinct from
       (old.release_id, old.revision, old.platform, old.order_hash, old.approval_required, old.submitted_by, old.made_at) then
        raise exception 'what a revision is made for never changes' using errcode = 'check_violation';
    end if;
    if not _follows and (new.processing_status, new.content_hash, new.artifacts, new.error, new.finished_at)
       is distinct from (old.processing_status, old.content_hash, old.artifacts, old.error, old.finished_at)
       or old.job_id is not null and new.job_id is distinct from old.job_id then
        raise exception 'only its job changes the processing of a revision' using errcode = 'check_violation';
    end if;
    if new.approval_status <> old.approval_status and (case
       when _follows then not (old.approval_status = 'pending_review'
                               and (new.approval_status = 'expired'
                                    or new.approval_status = 'approved' and not old.approval_required))
       else not (old.approval_status = 'pending_review' and new.approval_status in ('approved', 'rejected', 'expired')
                 or new.approval_status = 'revoked'
                    and (old.approval_status = 'approved' or old.approval_status = 'pending_review' and not old.approval_required))
            or new.approval_status = 'approved' and old.processing_status <> 'completed' end) then
        raise exception 'a revision that is % (processing: %) does not become %', old.approval_status, old.processing_status,
            new.approval_status using errcode = 'check_violation';
    end if;
    return new;
end;
$$;

create trigger guard_revision before update on app.revisions
    for each row execute function app.guard_revision();
