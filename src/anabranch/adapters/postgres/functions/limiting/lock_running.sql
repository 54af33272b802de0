-- Block starts and ends of tasks until the commit, once those under way have committed. It waits in slices shorter than the
-- deadlock timeout, so that they go first; only the last slices are longer, because an autovacuum ends for no shorter wait.
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
