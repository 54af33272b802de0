-- Note for each limit how many of its tasks began or ended to run with a statement: an insert and no update, so that no
-- report waits for a limit (app.limit_changes). What counts for which limit is as in app.count_running.
create function app.note_running() returns trigger language plpgsql
as $$
begin
    if exists (select from app.limits m where m.most is not null) then
        insert into app.limit_changes (kind, name, change)
        select m.kind, m.name, case tg_op when 'INSERT' then sum(t.tasks) else -sum(t.tasks) end
          from (select c.lane, count(*) as tasks from changed c group by c.lane) t
         cross join lateral (
               select x.queue, x.handler, x.limit_key, (select j.workflow from app.jobs j where j.id = x.job) as workflow
                 from app.lanes x where x.id = t.lane limit 1) l
          join app.limits m on m.most is not null and (tg_table_name = 'claims' or m.kind in ('workflow', 'key'))
               and m.name = case m.kind when 'queue' then l.queue when 'handler' then l.handler
                                        when 'key' then l.limit_key else l.workflow end
         group by m.kind, m.name;
    end if;
    return null;
end;
$$;

create trigger note_begun after insert on app.claims
    referencing new table as changed for each statement execute function app.note_running();
create trigger note_ended after delete on app.claims
    referencing old table as changed for each statement execute function app.note_running();
create trigger note_begun after insert on app.children
    referencing new table as changed for each statement execute function app.note_running();
create trigger note_ended after delete on app.children
    referencing old table as changed for each statement execute function app.note_running();
