-- Child jobs after _after that have ended and that nobody has taken to report how, in the order of their ids.
create function app.find_ended_children(_after bigint, _limit integer) returns setof bigint language sql stable as $$
    select k.job from app.children k
     where k.ended_at is not null and (k.taken_until is null or k.taken_until < app.now()) and k.job > _after
     order by k.job limit _limit;
$$;
