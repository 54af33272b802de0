-- For each of these jobs that is there: its state, and how long ago it ended; nothing ended while a backup runs, whose
-- snapshot may show it running. Ticks the duty that asks, which removes what jobs left behind outside the database (O2).
create function app.job_ends(
    _session bigint, _every interval, _job_ids text[], out job_id text, out state app.job_state, out ended_for interval
) returns setof record language plpgsql as $$
begin
    perform app.tick('clearing', _session, _every);
    return query
        select j.job_id, j.state, case when m.allowed then app.now() - j.finished_at end
          from app.may_remove() m(allowed) cross join app.jobs j where j.job_id = any(_job_ids);
end;
$$;
