-- Terminal states of jobs and nodes absorb; only a higher generation leaves them (E5).
create function app.guard_terminal() returns trigger language plpgsql as $$
begin
    if old.state::text in ('completed', 'failed', 'skipped', 'cancelled')
       and new.state is distinct from old.state and new.generation <= old.generation then
        raise exception '% is %, and stays so', tg_table_name, old.state using errcode = 'check_violation';
    end if;
    return new;
end;
$$;

create trigger guard_terminal before update of state on app.jobs
    for each row execute function app.guard_terminal();
create trigger guard_terminal before update of state on app.nodes
    for each row execute function app.guard_terminal();
