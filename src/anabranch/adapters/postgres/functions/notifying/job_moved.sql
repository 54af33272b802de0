-- React to a job that somebody watches, in the transaction that moved it (P9). Child jobs are their parents' own matter.
create function app.job_moved() returns trigger language plpgsql as $$
begin
    if new.state in ('completed', 'failed', 'cancelled') and new.state <> old.state and new.parent is null then
        perform app.announce_job(new);
    end if;
    if new.ending is null then  -- else it has not ended, and no gate of it is open any more
        perform app.follow_job(new);
    end if;
    return null;
end;
$$;

create trigger job_moved after update of state, watched on app.jobs
    for each row when (new.watched and (old.state is distinct from new.state or not old.watched))
    execute function app.job_moved();
