-- The breakers, and whether they are open: one whose time is over is, while tasks wait for it. Where none is left that could
-- try, it stops nothing.
create function app.list_breakers()
returns table (kind text, name text, is_open boolean, open_seconds float, message text) language plpgsql stable as $$
begin
    return query
    select b.kind, b.name,
           b.is_open and (b.open_until > app.now() or b.probe_at is not null or exists (
               select from app.lanes l where l.held = 'breaker ' || b.kind || ' ' || b.name and not l.closed)),
           extract(epoch from app.now() - b.opened_at)::float, b.error ->> 'message'
      from app.breakers b
     order by b.kind, b.name;
end;
$$;
