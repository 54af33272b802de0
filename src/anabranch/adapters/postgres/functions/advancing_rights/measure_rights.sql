-- How many rights wait to be taken, and for how long the oldest of them, if there is one: of very many, the first. One that
-- can't be taken yet, because tasks of its job were asked to stop and have not, is not late.
create function app.measure_rights(out untaken_rights bigint, out oldest_right_seconds float)
language plpgsql stable as $$
begin
    select count(*), extract(epoch from app.now() - min(x.made_at)) into untaken_rights, oldest_right_seconds
      from (select r.job, r.purpose, r.made_at from app.rights r where r.session is null
             order by coalesce(r.taken_until, r.made_at) limit 1000) x
     where x.purpose <> 'start' or not app.is_stopping(x.job);
end;
$$;
