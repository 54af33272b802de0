-- Whether nothing of a job that ended is in anybody's hand: no task runs, waits to be tidied or is a job, and no right is
-- left.
create function app.is_settled(_job bigint) returns boolean language plpgsql stable
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
begin
    return not exists (select from app.lanes l join app.claims c on c.lane = l.id where l.job = _job)
       and not exists (select from app.lanes l join app.due d on d.lane = l.id where l.job = _job)
       and not exists (select from app.lanes l join app.children k on k.lane = l.id where l.job = _job)
       and not exists (select from app.rights r where r.job = _job);
end;
$$;
