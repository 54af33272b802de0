-- Who may do what in schema app; part of every deployment.
-- The app role only calls functions, so no state changes but by them (E5); the reader only reads; handlers publish.
revoke all on schema app from public, anabranch_app, anabranch_reader, anabranch_handler, anabranch_geo, anabranch_features, anabranch_scaler;
grant usage on schema app to anabranch_app, anabranch_reader, anabranch_handler, anabranch_geo, anabranch_features, anabranch_scaler;

revoke all on all tables in schema app from public, anabranch_app, anabranch_reader, anabranch_handler, anabranch_geo, anabranch_features, anabranch_scaler;
grant select on all tables in schema app to anabranch_reader;
-- The hash of a key's secret is nobody's to read, nor is a sealed one. What starts workers reads how much waits, with
-- the functions of that view, and nothing else. Features are served from views that publications
-- show; what a user's handlers make in geo is nobody else's to read.
do $$
begin
    if to_regclass('app.keys') is not null then
        revoke all on app.keys from anabranch_reader;
    end if;
    if to_regclass('app.webhook_endpoints') is not null then
        revoke all on app.webhook_endpoints from anabranch_reader;
    end if;
    if to_regclass('app.layers') is not null then
        grant select on app.layers to anabranch_features;
    end if;
    if to_regclass('app.queue_depths') is not null then
        grant select on app.queue_depths to anabranch_scaler;
    end if;
    if to_regnamespace('geo') is not null then
        revoke all on schema geo from public;
        grant usage on schema geo to anabranch_handler, anabranch_features, anabranch_reader;
        grant usage, create on schema geo to anabranch_geo;
    end if;
end;
$$;
revoke all on all sequences in schema app from public, anabranch_app, anabranch_reader, anabranch_handler, anabranch_geo, anabranch_features, anabranch_scaler;

revoke all on all routines in schema app from public, anabranch_app, anabranch_reader, anabranch_handler, anabranch_geo, anabranch_features, anabranch_scaler;

-- The app role calls whole transitions, never their parts: a part has no fence (E3). A function that is not volatile
-- can't write, so both may call it. Handlers have a role of their own, which records what is published and touches
-- nothing else.
do $$
declare
    _routine record;
begin
    for _routine in
        select p.oid::regprocedure as name, p.provolatile <> 'v' as reads, p.proname = any('{
                   act_on_publications, add_callbacks, add_event, announce, announce_job, announce_release, answer_reports,
                   audit_change, begin_cleanup, count_endings, create_layer_table, drop_layer_table, end_wait, end_waits,
                   expire_sessions, declare_breakers, find_limit_room, find_room, fold_running, follow_breakers, follow_job, free_broken,
                   free_held, free_probes, hold_broken, hold_look, is_full, job_moved, keep_answer, keep_lane, keep_same,
                   let_go, lock_catalog, lock_collection, lock_deliveries, lock_key, lock_lane, lock_objects, lock_running,
                   make_right, measure, measure_endings, measure_node, next_place, note_kept, open_lane, open_wait,
                   ready_next, rebuild_items, record, record_collection, record_publications, record_visibility, refuse_retry, release, remove_claims,
                   remove_due, replace_view, ripen, save_turn, set_job, set_node, show_items, show_tables, start_tick,
                   take_due, tick, try_again, wake_deliverer, watch, watch_job}') as part,
               p.proname = any('{
                   adopt_table, begin_chunk, change_items, close_layer_table, complete_layer_table, ensure_collection,
                   find_adopted, find_asset, find_foreign, find_layer, find_made_from, find_name_holder, find_outdated,
                   find_provenance, find_readable, find_shown, finish_layer_table, hold_attempt, index_layer_table,
                   list_documents, list_extents, list_failures, list_files, list_published, make_layer_table,
                   measure_layer_table, mix_layer_table, note_versions, now, remove_collection,
                   renumber_layer_table, replace_extent}') as handlers
          from pg_catalog.pg_proc p
         where p.pronamespace = 'app'::regnamespace and p.prokind = 'f'
    loop
        if _routine.reads then
            execute format('grant execute on function %s to anabranch_app, anabranch_reader', _routine.name);
        elsif not _routine.part and not _routine.handlers then
            execute format('grant execute on function %s to anabranch_app', _routine.name);
        end if;
        if _routine.name in (to_regprocedure('app.layer_publication(text,text)'), to_regprocedure('app.may_read(text,text,boolean)')) then
            execute format('grant execute on function %s to anabranch_features', _routine.name);
        end if;
        if _routine.name in (to_regprocedure('app.now()'), to_regprocedure('app.read_running(text,text)'), to_regprocedure('app.count_ancestors(bigint,text)')) then
            execute format('grant execute on function %s to anabranch_scaler', _routine.name);
        end if;
        if _routine.handlers then
            execute format('grant execute on function %s to anabranch_handler', _routine.name);
        end if;
    end loop;
end;
$$;
