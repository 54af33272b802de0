-- Whose turn it is: the owners that have something to claim in these queues, the most urgent first, then those served longest
-- ago (E22). It looks once at each owner, however many lanes they have. One that was never served has the number 0.
create function app.find_turns(_queues text[]) returns app.turns[] language plpgsql stable as $$
begin
    return array(
        with recursive waiting as (
            select head.* from unnest(_queues) q cross join lateral (
                select l.queue, l.priority, l.owner from app.lanes l
                 where l.queue = q and l.claimable order by l.priority, l.owner limit 1) head
            union all
            select next.* from waiting w cross join lateral (
                select l.queue, l.priority, l.owner from app.lanes l
                 where l.queue = w.queue and l.claimable and (l.priority, l.owner) > (w.priority, w.owner)
                 order by l.priority, l.owner limit 1) next)
        select row(w.queue, w.priority, w.owner, coalesce(t.number, 0), coalesce(t.place, 0))::app.turns
          from waiting w
          left join lateral (
               select x.number, x.place from app.turns x
                where x.queue = w.queue and x.priority = w.priority and x.owner = w.owner limit 1) t on true
         order by w.priority, t.number nulls first);
end;
$$;
