-- Close, index and complete a table in one transaction, and answer what it holds; one that was completed before only answers.
-- No row where there is no such table. For tables that are copied within the database, and for processes of earlier releases.
create function app.finish_layer_table(_name text)
returns table (rows bigint, chunks bigint, bounds float8[], types text[]) language plpgsql as $$
declare
    _finished constant boolean := app.close_layer_table(_name);
begin
    if _finished is null then
        return;
    end if;
    perform app.index_layer_table(_name, 'gid'), app.index_layer_table(_name, 'geom');
    select m.rows, m.chunks, m.bounds, m.types into rows, chunks, bounds, types from app.measure_layer_table(_name) m;
    if not _finished then
        perform app.complete_layer_table(_name, rows);
    end if;
    return next;
end;
$$;
