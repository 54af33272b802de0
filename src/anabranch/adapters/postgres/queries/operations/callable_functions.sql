-- Every function of schema app but those that triggers call: how it is called with nothing, and as whom.
select p.oid::regprocedure::text as name,
       format('select * from app.%%I(%%s)', p.proname,
              (select string_agg('null::' || a.type::regtype::text, ', ' order by a.place)
                 from unnest(p.proargtypes::oid[]) with ordinality as a(type, place))) as call,
       case when pg_catalog.has_function_privilege('anabranch_reader', p.oid, 'execute') then 'anabranch_reader'
            when pg_catalog.has_function_privilege('anabranch_app', p.oid, 'execute') then 'anabranch_app'
            when pg_catalog.has_function_privilege('anabranch_handler', p.oid, 'execute') then 'anabranch_handler'
            else 'anabranch_owner' end as role
  from pg_catalog.pg_proc p
 where p.pronamespace = 'app'::regnamespace and p.prokind = 'f' and p.prorettype <> 'trigger'::regtype
 order by 1;
