-- Claimed tasks with their own values, in the form that app.claim returns. A task's own parameters override those handed over
-- to it. The checkpoint of an earlier attempt, if there is one, comes last: [phase, state, attempt].
create function app.describe_claims(_lanes bigint[], _indexes integer[]) returns jsonb language plpgsql stable as $$
begin
    return case when _lanes = '{}' then '[]' else (
        select jsonb_agg(jsonb_build_array(
                   t.lane, t.idx, c.attempt, c.failures, c.crashes, coalesce(i.key, t.idx::text), i.handler,
                   case when l.heir_of is null then i.parameters else
                       coalesce(app.handed_to(l.heir_of, coalesce(i.key, t.idx::text)), '{}')
                       || coalesce(i.parameters, '{}') end,
                   case when l.lineage is not null then
                       app.task_result(l.job, l.lineage, coalesce(i.key, t.idx::text)) end)
                   || coalesce((select jsonb_build_array(jsonb_build_array(k.phase, k.state, k.attempt))
                                  from app.checkpoints k where k.lane = t.lane and k.idx = t.idx), '[]') order by t.place)
          from unnest(_lanes, _indexes) with ordinality as t(lane, idx, place)
         cross join lateral (
               select x.attempt, x.failures, x.crashes from app.claims x where x.lane = t.lane and x.idx = t.idx limit 1) c
         cross join lateral (
               select x.job, x.policy ->> 'lineage' as lineage, (x.policy ->> 'heir_of')::bigint as heir_of
                 from app.lanes x where x.id = t.lane limit 1) l
          left join lateral (
               select x.key, x.handler, x.parameters from app.items x where x.lane = t.lane and x.idx = t.idx limit 1) i
            on true) end;
end;
$$;
