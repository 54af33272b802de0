-- Note that the caller's transaction copies a file of rows into a table. False: it was copied before, by an attempt whose
-- report was lost; a transaction that copies it now is waited for. Null: there is no such table.
create function app.begin_chunk(_table text, _chunk integer, _rows bigint) returns boolean language plpgsql as $$
begin
    insert into app.loaded_chunks (table_name, chunk, rows)
    select t.name, _chunk, _rows from app.layer_tables t where t.name = _table
    on conflict do nothing;
    return case when found then true
                when exists (select from app.layer_tables t where t.name = _table) then false end;
end;
$$;
