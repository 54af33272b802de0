-- The releases that have a revision in these statuses, if there are few; null for a status: any. Null: there are many. A part
-- of app.list_releases.
create function app.find_in_status(
    _platform text, _processing app.processing_status, _approval app.approval_status
) returns text[] language plpgsql stable
set plan_cache_mode = force_custom_plan set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off
set enable_mergejoin = off set jit = off as $$
declare
    _most constant integer := 1000;
    _found text[];
begin
    select array_agg(f.release_id) into _found
      from (select f.release_id
              from app.platforms p
             cross join unnest(enum_range(null::app.processing_status)) s(processing)
             cross join unnest(enum_range(null::app.approval_status)) t(approval)
             cross join lateral (
                   select v.release_id from app.revisions v
                    where v.platform = p.id and v.statuses = s.processing || ' ' || t.approval limit _most + 1) f
             where (_platform = '*' or p.id = _platform) and s.processing = coalesce(_processing, s.processing)
               and t.approval = coalesce(_approval, t.approval)
             limit _most + 1) f;
    return case when cardinality(_found) > _most then null else coalesce(_found, '{}') end;
end;
$$;
