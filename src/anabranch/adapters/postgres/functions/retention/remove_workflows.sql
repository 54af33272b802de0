-- Remove definitions older than _age that no job and no schedule names, and no definition as a part. A submission finds or writes its
-- definition first and its job later in the same transaction, so they are removed only while no submission is under way;
-- otherwise the next round does it. Returns how many.
create function app.remove_workflows(_age interval, _batch integer) returns integer language plpgsql as $$
declare
    _removed integer;
begin
    perform from app.workflows w
      where w.created_at < app.now() - _age and not exists (select from app.jobs j where j.workflow_hash = w.hash)
        and not exists (select from app.schedules s where s.workflow_hash = w.hash)
        and not exists (select from app.workflows o where w.hash = any(o.parts))
      limit 1;
    if not found then
        return 0;
    end if;
    begin
        lock table app.workflows in share row exclusive mode nowait;
    exception when lock_not_available then
        return 0;
    end;
    delete from app.workflows d
     where d.hash in (
        select w.hash from app.workflows w
         where w.created_at < app.now() - _age and not exists (select from app.jobs j where j.workflow_hash = w.hash)
           and not exists (select from app.schedules s where s.workflow_hash = w.hash)
           and not exists (select from app.workflows o where w.hash = any(o.parts))
         limit _batch);
    get diagnostics _removed = row_count;
    return _removed;
end;
$$;
