-- What app.purge would purge of the _look jobs after _after, and then of their children: how many by state, and how many
-- tasks they have. Last is the job after which to go on, or null when all that follow are younger.
create function app.survey_purge(
    _age interval, _after bigint, _look integer,
    out completed integer, out failed integer, out cancelled integer, out tasks bigint, out last bigint
) language sql stable as $$
    with old as (
        select j.* from (select x.* from app.jobs x where x.id > _after order by x.id limit _look) j
         where j.created_at < app.now() - _age),
    ended as (
        select o.id, o.state from old o
         where o.state in ('completed', 'failed', 'cancelled') and o.finished_at < app.now() - _age
           and app.is_settled(o.id)
           and not exists (select from app.jobs p
                            where p.id = o.parent and (p.finished_at is null or p.finished_at >= app.now() - _age)))
    select count(*) filter (where e.state = 'completed')::integer, count(*) filter (where e.state = 'failed')::integer,
           count(*) filter (where e.state = 'cancelled')::integer,
           (select coalesce(sum(l.next_index), 0)::bigint from app.lanes l join ended x on x.id = l.job
             where l.purpose = 'work'),
           (select max(o.id) from old o)
      from ended e;
$$;
