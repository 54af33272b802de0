-- Whether nothing of an ended job is left: no task is running, waiting for cleanup or a child job, and there is no advance right.
create function app.is_settled(_job bigint) returns boolean language plpgsql stable
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
begin
    return not exists (select from app.lanes l join app.claims c on c.lane = l.id where l.job = _job)
       and not exists (select from app.lanes l join app.due d on d.lane = l.id where l.job = _job)
       and not exists (select from app.lanes l join app.children k on k.lane = l.id where l.job = _job)
       and not exists (select from app.rights r where r.job = _job);
end;
$$;
