-- Note the breakers that a worker declares for its handlers and queues: [{kind, name, failures, window_seconds, open_seconds},
-- …]; those that it declares no longer are removed, and app.heal_holds lets go what they held. The last worker to start decides.
create function app.declare_breakers(_handlers text[], _queues text[], _breakers jsonb) returns void language plpgsql as $$
begin
    perform from app.breakers b  -- in the order in which reports lock them
      where b.kind = 'handler' and b.name = any(_handlers) or b.kind = 'queue' and b.name = any(_queues)
      order by b.kind, b.name for update;
    delete from app.breakers b
     where (b.kind = 'handler' and b.name = any(_handlers) or b.kind = 'queue' and b.name = any(_queues))
       and not exists (select from jsonb_to_recordset(_breakers) as d(kind text, name text)
                        where (d.kind, d.name) = (b.kind, b.name));
    insert into app.breakers as b (kind, name, failures, window_for, open_for)
    select d.kind, d.name, d.failures, app.seconds(d.window_seconds), app.seconds(d.open_seconds)
      from jsonb_to_recordset(_breakers) as d(
               kind text, name text, failures integer, window_seconds float, open_seconds float)
     order by d.kind, d.name
    on conflict (kind, name) do update
       set failures = excluded.failures, window_for = excluded.window_for, open_for = excluded.open_for
     where (b.failures, b.window_for, b.open_for) is distinct from (excluded.failures, excluded.window_for, excluded.open_for);
end;
$$;
