-- Keep some items of a large fan-out, each batch in a commit of its own, until `open_lane` takes all of them in one (E11).
-- Only the holder of the right may (E3). A second holder stages the same: outputs don't change within a generation.
-- False: the right was lost.
create function app.stage_items(
    _right bigint, _session bigint, _takes integer, _node text, _first integer, _items jsonb
) returns boolean language plpgsql as $$
declare
    _job app.jobs;
begin
    perform app.assert_read_committed();
    select j.* into _job from app.rights r join app.jobs j on j.id = r.job
     where r.id = _right and r.session = _session and r.takes = _takes;
    if not found then
        return false;
    end if;
    insert into app.staged_items (job, node, generation, idx, item)
    select _job.id, _node, _job.generation, _first + (i.place - 1)::integer, i.item
      from jsonb_array_elements(_items) with ordinality as i(item, place)
    on conflict do nothing;
    return true;
end;
$$;
