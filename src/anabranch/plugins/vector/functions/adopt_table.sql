-- Copy a table that a user's handler made in schema geo into a finished table of ours, and drop the user's. Answers what it
-- holds; the hash is that of its rows, by gid. No row where an earlier attempt has done so. AN019: it is not such a table.
-- No code of the user runs here, where it would be the owner's: the rows are copied, and the table is not taken over with its
-- triggers, constraints and indexes; only an ordinary table is read, without policies, of types that PostgreSQL itself has.
-- The planner computes expressions of indexes, statistics and constraints, so that tables with the first two are refused, and
-- the last are not looked at. The lock needs the right to delete.
create function app.adopt_table(
    _source text, _table text, _job_id text, _geometry text, _geometry_type text, _has_z boolean, _has_gid boolean,
    _columns jsonb
) returns table (rows bigint, bounds float8[], sha256 text) language plpgsql
set row_security = off set timezone = 'UTC' set datestyle = 'ISO' set extra_float_digits = 1 set bytea_output = 'hex'
set constraint_exclusion = off as $$
declare
    _shape text := format('public.st_force%s(s.%I)', case when _has_z then '3dz' else '2d' end, _geometry);
begin
    execute format('lock table only geo.%I in access exclusive mode', _source);  -- nobody adds an index meanwhile
    if not exists (
        select from pg_class c
         where c.oid = format('geo.%I', _source)::regclass and c.relkind = 'r' and c.relowner = 'anabranch_geo'::regrole
           and not exists (select from pg_inherits i where i.inhparent = c.oid)
           and not exists (select from pg_index i
                            where i.indrelid = c.oid and (i.indexprs is not null or i.indpred is not null))
           and not exists (select from pg_statistic_ext s where s.stxrelid = c.oid and s.stxexprs is not null))
       or exists (
        select from pg_attribute a join pg_type t on t.oid = a.atttypid
         where a.attrelid = format('geo.%I', _source)::regclass and a.attnum > 0
           and (a.attname = _geometry or a.attname = 'gid' and _has_gid
                or a.attname in (select c.name from jsonb_to_recordset(_columns) c(name text)))
           and case when a.attname = _geometry then t.oid <> 'public.geometry'::regtype
                    else t.typnamespace <> 'pg_catalog'::regnamespace end)
    then
        raise exception 'geo.% is not a table of a user that can be published', _source using errcode = 'AN019';
    end if;
    if not app.create_layer_table(_table, _job_id, _geometry_type, false, _has_z, _columns) then
        return;
    end if;
    if _geometry_type <> 'Point' then
        _shape := format('public.st_multi(%s)', _shape);
    end if;
    execute format(
        'insert into geo.%I select %s, %s%s from only geo.%I s', _table,
        case when _has_gid then 's.gid::bigint' else 'row_number() over ()' end, _shape,
        (select string_agg(format(', s.%I::%s', c.name, c.type::regtype), '' order by c.position)
           from rows from (jsonb_to_recordset(_columns) as (name text, type text)) with ordinality c(name, type, position)),
        _source);
    select f.rows, f.bounds into adopt_table.rows, adopt_table.bounds from app.finish_layer_table(_table) f;
    execute format($query$
        select encode(sha256(string_agg(p.hash, '' order by p.part)), 'hex')
          from (select t.gid / 10000 as part, sha256(string_agg(sha256(convert_to(row(t.*)::text, 'UTF8')), '' order by t.gid)) as hash
                  from geo.%I t group by 1) p$query$, _table) into adopt_table.sha256;
    execute format('drop table geo.%I', _source);
    return next;
end;
$$;
