-- Whether something of a job runs that is over: tasks in closed lanes, which were asked to stop, and child jobs.
create function app.is_stopping(_job bigint) returns boolean language plpgsql stable
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
begin
    return exists (select from app.lanes l join app.claims c on c.lane = l.id where l.job = _job and l.closed)
        or exists (select from app.lanes l join app.children k on k.lane = l.id where l.job = _job and l.closed);
end;
$$;
