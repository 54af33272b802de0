-- Count how many tasks of a queue, workflow, handler or key run: for a new limit, and for `db audit`; claims go by
-- what app.read_running sums. Only lanes with a running task are looked at, each once: a lane that is open counts under its
-- own lock what runs, so that tasks are counted one by one only where it is closed. A task that runs as a job counts for
-- its workflow and its key; a queue's and a handler's limits spare workers, and it holds none.
create function app.count_running(_kind text, _name text) returns integer language plpgsql stable as $$
declare
    _with_jobs constant boolean := _kind in ('workflow', 'key');
begin
    return (
        with recursive claimed as (
            (select c.lane from app.claims c order by c.lane limit 1)
            union all
            select (select c.lane from app.claims c where c.lane > b.lane order by c.lane limit 1)
              from claimed b where b.lane is not null),
        nested as (
            (select k.lane from app.children k where _with_jobs order by k.lane limit 1)
            union all
            select (select k.lane from app.children k where k.lane > b.lane order by k.lane limit 1)
              from nested b where b.lane is not null),
        busy as (select b.lane from claimed b union select b.lane from nested b)
        select coalesce(sum(
                   case when l.closed then (select count(*) from app.claims c where c.lane = l.id) else l.running end
                   + case when _with_jobs and l.closed then (select count(*) from app.children k where k.lane = l.id)
                          when not _with_jobs and not l.closed
                          then -(select count(*) from app.children k where k.lane = l.id) else 0 end), 0)
          from busy b
         cross join lateral (select x.* from app.lanes x where x.id = b.lane limit 1) l
         where _name = case _kind when 'queue' then l.queue when 'handler' then l.handler when 'key' then l.limit_key
                                  else (select j.workflow from app.jobs j where j.id = l.job) end);
end;
$$;
