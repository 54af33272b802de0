-- The highest attempt of a node's tasks of one purpose in all generations, whatever became of it; the next one begins above it, so
-- that no two attempts of a task share a number (E3).
create function app.last_attempt(_job bigint, _node text, _purpose app.lane_purpose) returns integer
language plpgsql stable as $$
begin
    return (
        select coalesce(max(greatest(
                   l.tried,
                   (select max(o.attempt) from app.outcomes o where o.lane = l.id),
                   (select max(a.attempt) from app.attempts a where a.lane = l.id),
                   (select max(c.attempt) from app.claims c where c.lane = l.id),
                   (select max(k.attempt) from app.children k where k.lane = l.id))), 0)
          from app.lanes l where l.job = _job and l.node = _node and l.purpose = _purpose);
end;
$$;
