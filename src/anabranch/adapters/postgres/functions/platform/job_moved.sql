-- A job that somebody watches has another state, or is watched from now on: what follows from it is written in the same
-- transaction. The engine knows nothing of it. For a job that nobody watches this costs a look at an index.
create function app.job_moved() returns trigger language plpgsql as $$
declare
    _job app.jobs;
begin
    if tg_table_name = 'watched_jobs' then
        select j.* into _job from app.jobs j where j.id = new.job;
        perform app.follow_job(_job);
    elsif exists (select from app.watched_jobs w where w.job = new.id) then
        perform app.follow_job(new);
    end if;
    return null;
end;
$$;

create trigger job_moved after update of state on app.jobs
    for each row when (old.state is distinct from new.state) execute function app.job_moved();
create trigger job_watched after insert on app.watched_jobs
    for each row execute function app.job_moved();
