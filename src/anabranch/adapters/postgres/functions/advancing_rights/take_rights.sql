-- Take advance rights that are free: never taken, given back and due again, or held by a session that ended or whose lease
-- did; and those of gates and waits whose time has come, but not if the clock is later than _before, which means that it was
-- set forward. A right whose holder ended counts as troubled from then on: it may be the cause. A dead session takes
-- nothing (E3). The right to begin a job's cleanup is free once nothing else of it runs.
create function app.take_rights(_session bigint, _limit integer, _before timestamptz default null)
returns table (right_id bigint, takes integer) language plpgsql as $$
declare
    _lease constant interval := app.find_lease(_session);
begin
    perform app.assert_read_committed();
    if _lease is null then
        return;
    end if;
    if coalesce(app.now() < _before, true) then
        perform app.end_waits(_limit);
    end if;
    return query
    with free as (
        select r.id from app.rights r
         where (coalesce(r.taken_until, r.made_at) <= app.now()
                or exists (select from app.sessions s where s.id = r.session and s.dead_at is not null))
           and (r.purpose <> 'start' or not app.is_stopping(r.job))
         order by coalesce(r.taken_until, r.made_at) limit _limit
           for update skip locked)
    update app.rights r
       set session = _session, takes = r.takes + 1, taken_until = app.now() + _lease,
           troubled_at = case when r.session is not null then coalesce(r.troubled_at, app.now()) else r.troubled_at end,
           trouble = case when r.session is not null
                          then coalesce(r.trouble, 'the processes that took this step ended before it was done')
                          else r.trouble end
      from free where r.id = free.id
    returning r.id, r.takes;
end;
$$;
