-- Drop some tables that no publication shows, of jobs that ended longer ago than _age or are purged. Those that somebody
-- publishes meanwhile wait for the next round. Returns how many there were.
create function app.drop_unused_tables(_age interval, _batch integer) returns integer language plpgsql as $$
declare
    _table record;
    _dropped integer := 0;
begin
    perform app.assert_read_committed();
    if not app.may_remove() then
        return 0;
    end if;
    for _table in
        select t.name from app.layer_tables t
          left join app.jobs j on j.job_id = t.job_id
         where (j.job_id is null or j.finished_at < app.now() - _age)
           and not exists (select from app.published_tables p where p.table_name = t.name)
         order by t.made_at limit _batch for update of t skip locked
    loop
        perform app.drop_layer_table(_table.name);
        _dropped := _dropped + 1;
    end loop;
    return _dropped;
end;
$$;
