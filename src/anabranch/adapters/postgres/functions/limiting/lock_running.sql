-- Keep every task from beginning or ending until the commit, when those that do have committed. It gives way to them while
-- it waits, in slices below the deadlock timeout; only the last ones are longer, for an autovacuum ends only for those.
-- Every function that writes claims or children locks these tables before lanes and limits.
create function app.lock_running() returns void language plpgsql as $$
declare
    _before text := current_setting('lock_timeout');
begin
    for _try in 1..32 loop
        begin
            perform set_config('lock_timeout', case when _try > 30 then '3s' else '100ms' end, true);
            lock table app.claims, app.children in share row exclusive mode;
            perform set_config('lock_timeout', _before, true);
            return;
        exception when lock_not_available or deadlock_detected then
            if _try = 32 then
                raise;
            end if;
        end;
    end loop;
end;
$$;
