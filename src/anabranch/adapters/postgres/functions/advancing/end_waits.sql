-- Give rights to advance for gates and waits whose time is up by the database's clock (E18), free to take. Where that
-- fails for all of them, it is done one by one, and what fails alone is tried again in a minute: a bad row hurts only
-- itself (E10).
create function app.end_waits(_batch integer) returns void language plpgsql as $$
declare
    _over record;
begin
    if not exists (select from app.waits w where w.until <= app.now()) then
        return;
    end if;
    begin
        with over as (
            select w.job, w.node from app.waits w where w.until <= app.now()
             order by w.until limit _batch for update skip locked),
        noted as (
            update app.waits w set until = null from over where w.job = over.job and w.node = over.node
            returning w.job, w.node, w.generation)
        insert into app.rights (job, node, purpose, generation, takes, made_at)
        select n.job, n.node, 'wait', n.generation, 0, app.now() from noted n
        on conflict do nothing;
        return;
    exception when data_exception or integrity_constraint_violation or program_limit_exceeded or internal_error then
        raise warning 'waits can''t end together: %', sqlerrm;
    end;
    for _over in
        select w.job, w.node from app.waits w where w.until <= app.now()
         order by w.until limit 10 * _batch for update skip locked
    loop
        begin
            perform app.end_wait(_over.job, _over.node, 'wait', null);
            update app.waits w set until = null where w.job = _over.job and w.node = _over.node;
        exception when data_exception or integrity_constraint_violation or program_limit_exceeded or internal_error then
            update app.waits w set until = app.now() + interval '1 min' where w.job = _over.job and w.node = _over.node;
        end;
    end loop;
end;
$$;
