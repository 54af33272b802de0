-- Set or take away what limits a queue, workflow, handler or key; _change has `most`, `paused` and `reason`, or some of
-- them. One that says nothing any more goes; app.heal_holds then lets go what it held. Answers it as it stands; no row:
-- there is none.
create function app.limit(_kind text, _name text, _change jsonb, _by text) returns setof app.limits language plpgsql as $$
begin
    perform app.assert_read_committed();
    insert into app.limits as m (kind, name, most, paused, reason, set_by, set_at)
    values (_kind, _name, (_change ->> 'most')::integer, coalesce((_change ->> 'paused')::boolean, false),
            coalesce(_change ->> 'reason', ''), _by, app.now())
    on conflict (kind, name) do update
       set most = case when _change ? 'most' then excluded.most else m.most end,
           paused = case when _change ? 'paused' then excluded.paused else m.paused end,
           reason = case when _change ? 'reason' then excluded.reason else m.reason end,
           set_by = excluded.set_by, set_at = excluded.set_at;
    delete from app.limits m where m.kind = _kind and m.name = _name and m.most is null and not m.paused;
    return query select m.* from app.limits m where m.kind = _kind and m.name = _name;
end;
$$;
