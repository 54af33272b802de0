-- Cancel one child job whose task is over because its lane closed (E7): a child is locked before its parent, so a cancel
-- of the parent can't do it in its own commit; and one commit cancels one, for two would lock lanes out of order. Those
-- that others are at come last, and are waited for. False: there is none.
create function app.cancel_orphan() returns boolean language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
    _child app.jobs;
begin
    perform app.assert_read_committed();
    select j.* into _child
      from app.children k join app.lanes l on l.id = k.lane and l.closed join app.jobs j on j.id = k.job
     where k.ended_at is null limit 1 for no key update of j skip locked;
    if not found then
        select j.* into _child
          from app.children k join app.lanes l on l.id = k.lane and l.closed join app.jobs j on j.id = k.job
         where k.ended_at is null limit 1 for no key update of j;
    end if;
    if not found then
        return false;
    end if;
    perform app.cancel(_child.job_id, 'the job that runs it is over');
    return true;
end;
$$;
