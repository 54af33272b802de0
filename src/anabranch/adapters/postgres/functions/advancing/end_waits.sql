-- Give rights to advance for gates and waits whose time is up by the database's clock (E18), free to take.
create function app.end_waits(_batch integer) returns void language plpgsql as $$
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
end;
$$;
