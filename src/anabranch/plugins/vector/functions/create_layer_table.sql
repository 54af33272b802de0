-- Make a table of ours for the rows of a layer, empty. _columns: [{name, type}, …], of types that PostgreSQL itself has: those
-- of users could run their code as the owner. False: there is one of this name; a transaction that makes it now is waited for.
create function app.create_layer_table(
    _name text, _job_id text, _geometry_type text, _mixed boolean, _has_z boolean, _columns jsonb
) returns boolean language plpgsql as $$
begin
    insert into app.layer_tables (name, job_id, geometry_type, has_z, columns, made_at)
    values (_name, _job_id, _geometry_type, _has_z, _columns, app.now())
    on conflict do nothing;
    if not found then
        return false;
    end if;
    if exists (select from jsonb_to_recordset(_columns) c(type text) join pg_type t on t.oid = c.type::regtype
                where t.typnamespace <> 'pg_catalog'::regnamespace) then
        raise exception 'the columns of geo.% have types that PostgreSQL does not have', _name using errcode = 'AN019';
    end if;
    execute format(
        'create table geo.%I (gid bigint not null, geom public.geometry(%s, 4326) not null%s)', _name,
        quote_ident(case when _mixed then 'Geometry' else _geometry_type end || case when _has_z then 'Z' else '' end),
        (select string_agg(format(', %I %s', c.name, c.type::regtype), '' order by c.position)
           from rows from (jsonb_to_recordset(_columns) as (name text, type text)) with ordinality c(name, type, position)));
    return true;
end;
$$;
