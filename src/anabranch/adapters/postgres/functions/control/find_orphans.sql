-- Child jobs that go on though their task is over, because its lane closed (E7), after a job, in order. One that ends
-- already, with its cleanup, is left alone.
create function app.find_orphans(_after bigint, _batch integer) returns setof bigint language sql stable as $$
    select k.job from app.children k
     cross join lateral (select from app.lanes x where x.id = k.lane and x.closed limit 1) l
     where k.ended_at is null and k.job > _after
       and not exists (select from app.jobs j where j.id = k.job and j.ending is not null)
     order by k.job limit _batch;
$$;
