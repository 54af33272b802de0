-- Set or remove the limit of a queue, workflow, handler or key; _change has some of `most`, `paused` and `reason`. A limit
-- without a number or pause is deleted; app.heal_holds then releases what it held. Returns the current row; no row if it is
-- deleted. With a number, running tasks are counted once while none begins or ends; from then on claims use its changes.
-- Nothing else is locked meanwhile.
create function app.limit(_kind text, _name text, _change jsonb, _by text) returns setof app.limits language plpgsql as $$
declare
    _counted constant boolean := _change ->> 'most' is not null;
begin
    perform app.assert_read_committed();
    if _counted then
        perform app.lock_running();
    end if;
    insert into app.limits as m (kind, name, most, paused, reason, set_by, set_at)
    values (_kind, _name, (_change ->> 'most')::integer, coalesce((_change ->> 'paused')::boolean, false),
            coalesce(_change ->> 'reason', ''), _by, app.now())
    on conflict (kind, name) do update
       set most = case when _change ? 'most' then excluded.most else m.most end,
           paused = case when _change ? 'paused' then excluded.paused else m.paused end,
           reason = case when _change ? 'reason' then excluded.reason else m.reason end,
           set_by = excluded.set_by, set_at = excluded.set_at;
    delete from app.limits m where m.kind = _kind and m.name = _name and m.most is null and not m.paused;
    delete from app.limit_changes c
     where c.ctid = any(array(
        select x.ctid from app.limit_changes x
         where (_counted and x.kind = _kind and x.name = _name)
            or not exists (select from app.limits m where m.kind = x.kind and m.name = x.name and m.most is not null)
           for update skip locked));
    if _counted then
        insert into app.limit_changes (kind, name, change, upto, open)
        select _kind, _name, app.count_running(_kind, _name), pg_snapshot_xmax(s),
               array(select pg_snapshot_xip(s)) || pg_current_xact_id()
          from pg_current_snapshot() s;
    end if;
    return query select m.* from app.limits m where m.kind = _kind and m.name = _name;
end;
$$;
