-- Append a job's next event. The caller holds the job's row, so numbers have no gaps and no repeats (E17).
create function app.add_event(_job bigint, _kind text, _node text, _data jsonb) returns void language plpgsql as $$
declare
    _seq integer;
begin
    update app.jobs set last_event = last_event + 1 where id = _job returning last_event into _seq;
    insert into app.events (job, seq, at, kind, node, data) values (_job, _seq, app.now(), _kind, _node, _data);
end;
$$;
