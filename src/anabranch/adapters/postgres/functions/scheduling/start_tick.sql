-- Decide what becomes of a tick that waits, with its schedule's row locked: it gets its job in this commit, or a reason why
-- not, or goes on waiting for the job of an earlier tick of its kind. What the caller ran by hand waits for nothing.
create function app.start_tick(
    _session bigint, _workflows jsonb, _submissions jsonb, _s app.schedules, _at timestamptz, _reason text
) returns table (state app.tick_state, job_id text, rights bigint[]) language plpgsql as $$
declare
    _max_waiting constant integer := 100;
    _kind app.tick_kind;
    _open text[];
    _waits boolean;
begin
    select t.kind into strict _kind from app.schedule_ticks t where t.schedule = _s.id and t.at = _at;
    update app.schedule_ticks t set open = false
     where t.schedule = _s.id and t.kind = _kind and t.open
       and not exists (select from app.jobs j where j.job_id = t.job_id and j.state in ('pending', 'running', 'waiting'));
    _open := array(select t.job_id from app.schedule_ticks t where t.schedule = _s.id and t.kind = _kind and t.open);
    _waits := exists (select from app.schedule_ticks t
                       where t.schedule = _s.id and t.kind = _kind and t.state = 'waiting' and t.at < _at);
    rights := '{}';
    if _kind = 'manual' then
        null;
    elsif (_kind = 'backfill' or _s.overlap = 'queue') and (cardinality(_open) > 0 or _waits) then
        state := 'waiting';
        if _kind = 'regular' and _max_waiting < (
                select count(*) from app.schedule_ticks t
                 where t.schedule = _s.id and t.kind = _kind and t.state = 'waiting') then
            state := 'skipped';
            _reason := format('%s ticks wait already', _max_waiting);
        end if;
    elsif _s.overlap = 'skip' and cardinality(_open) > 0 then
        state := 'skipped';
        _reason := format('job %s of an earlier tick goes on', left(_open[1], 12));
    elsif _s.overlap = 'cancel_previous' then
        perform app.cancel(o, 'the next tick of its schedule came', 'schedule:' || _s.name) from unnest(_open) o;
    end if;
    if state is null and coalesce(_s.trouble, _reason) is not null then
        state := 'failed';
        _reason := coalesce(_s.trouble, _reason);
    elsif state is null then
        state := 'submitted';
        select b.job_id, b.rights into strict start_tick.job_id, start_tick.rights
          from app.submit_batch(_session, _workflows, _submissions) b;
    end if;
    update app.schedule_ticks t
       set state = start_tick.state, job_id = start_tick.job_id, open = start_tick.job_id is not null,
           reason = case when start_tick.state in ('skipped', 'failed') then _reason end
     where t.schedule = _s.id and t.at = _at;
    return next;
end;
$$;
