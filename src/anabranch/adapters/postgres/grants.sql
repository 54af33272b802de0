-- Who may do what in schema app; part of every deployment.
-- The app role only calls functions, so no state changes but by them (E5); the reader only reads.
revoke all on schema app from public, anabranch_app, anabranch_reader;
grant usage on schema app to anabranch_app, anabranch_reader;

revoke all on all tables in schema app from public, anabranch_app, anabranch_reader;
grant select on all tables in schema app to anabranch_reader;
revoke all on all sequences in schema app from public, anabranch_app, anabranch_reader;

revoke all on all routines in schema app from public, anabranch_app, anabranch_reader;
grant execute on all routines in schema app to anabranch_app;

-- One that is not volatile can't write, so the reader may call it.
do $$
declare
    _routine regprocedure;
begin
    for _routine in
        select p.oid from pg_catalog.pg_proc p
         where p.pronamespace = 'app'::regnamespace and p.prokind = 'f' and p.provolatile <> 'v'
    loop
        execute format('grant execute on function %s to anabranch_reader', _routine);
    end loop;
end;
$$;
