-- Report and claim in one transaction: half the commits of doing one after the other. It never waits for a lane to
-- claim from, because the reports have locked lanes already.
create function app.turn(
    _session bigint, _reports jsonb, _queues text[], _limit integer, _fast jsonb,
    out answers text[], out rights bigint[], out claims jsonb
) language plpgsql as $$
begin
    select r.answers, r.rights into answers, rights from app.report(_session, _reports) r;
    claims := app.claim(_session, _queues, _limit, _fast, false);
end;
$$;
