-- Cancel child jobs whose task is over because its lane closed (E7): a child is locked before its parent, so a cancel
-- of the parent can't do it in its own commit. Answers how many.
create function app.cancel_orphans(_batch integer) returns integer language plpgsql as $$
declare
    _child text;
    _count integer := 0;
begin
    for _child in
        select j.job_id
          from app.children k join app.lanes l on l.id = k.lane and l.closed join app.jobs j on j.id = k.job
         where k.ended_at is null order by j.id limit _batch
    loop
        perform app.cancel(_child, 'the job that runs it is over');
        update app.children k set ended_at = app.now()
          from app.jobs j where j.job_id = _child and k.job = j.id and k.ended_at is null;
        _count := _count + 1;
    end loop;
    return _count;
end;
$$;
