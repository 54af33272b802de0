-- Refuse to try the job of a revision again where the release is decided, has a newer revision, or would be the second one of
-- its asset that is unresolved (P3). AN032.
create function app.refuse_retry(
    _asset_id text, _release_id text, _revision integer, _processing app.processing_status, _approval app.approval_status
) returns void language plpgsql as $$
declare
    _a record;
begin
    select a.* into _a from app.assets a where a.asset_id = _asset_id for no key update;  -- as a submission does
    if _a.deleted_at is not null or app.is_unresolved(_asset_id, _release_id)
       or exists (select from app.revisions n where n.release_id = _release_id and n.revision > _revision)
       or not (_processing = 'failed' and _approval in ('pending_review', 'approved')) then
        raise exception 'release % is decided, or was submitted again: submit it once more', _release_id using errcode = 'AN032';
    end if;
end;
$$;
