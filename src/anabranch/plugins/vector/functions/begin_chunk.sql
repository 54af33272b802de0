-- Note that the caller's transaction copies a file of rows into a table. False: it was copied before, by an attempt whose
-- report was lost; a transaction that copies it now is waited for.
create function app.begin_chunk(_table text, _chunk integer, _rows bigint) returns boolean language plpgsql as $$
begin
    insert into app.loaded_chunks (table_name, chunk, rows) values (_table, _chunk, _rows) on conflict do nothing;
    return found;
end;
$$;
