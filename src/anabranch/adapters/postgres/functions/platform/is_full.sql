-- Whether a platform has as many unresolved releases as it may have, besides one. Of two submissions at once the second one
-- waits, where there is such a limit.
create function app.is_full(_platform text, _but_release text) returns boolean language plpgsql as $$
declare
    _most integer;
begin
    select p.max_unresolved into _most from app.platforms p where p.id = _platform;
    if _most is null then
        return false;
    end if;
    perform from app.platforms p where p.id = _platform for no key update;
    return _most <= (select count(distinct v.release_id) from app.revisions v
                      where v.platform = _platform and v.approval_status = 'pending_review' and v.processing_status <> 'failed'
                        and v.release_id <> _but_release);
end;
$$;
