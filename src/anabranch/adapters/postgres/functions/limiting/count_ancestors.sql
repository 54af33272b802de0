-- How many tasks that a job runs for, directly or through others, hold a place of a key. They wait for it, so what runs for
-- them shares their places: else a child would wait for its parent, and the parent for it.
create function app.count_ancestors(_job bigint, _key text) returns integer language plpgsql stable as $$
begin
    return (
        with recursive above as (
            select k.lane from app.children k where k.job = _job
            union all
            select k.lane from above a join app.lanes l on l.id = a.lane join app.children k on k.job = l.job)
        select count(*) from above a join app.lanes l on l.id = a.lane where l.limit_key = _key);
end;
$$;
