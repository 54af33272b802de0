-- How many tasks of a queue, workflow, handler or key run now: counted, never stored, so that it can't leak. A task that
-- runs as a job counts for its workflow and its key; a queue's and a handler's limits spare workers, and it holds none.
create function app.count_running(_kind text, _name text) returns integer language plpgsql stable as $$
begin
    return (
        select coalesce(sum(held.tasks), 0)
          from (select t.lane, count(*) as tasks
                  from (select c.lane from app.claims c
                        union all
                        select k.lane from app.children k where _kind in ('workflow', 'key')) t
                 group by t.lane) held
         cross join lateral (select l.* from app.lanes l where l.id = held.lane limit 1) l
         where _name = case _kind when 'queue' then l.queue when 'handler' then l.handler when 'key' then l.limit_key
                                  else (select j.workflow from app.jobs j where j.id = l.job) end);
end;
$$;
