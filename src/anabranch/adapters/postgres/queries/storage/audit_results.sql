-- The results that some jobs and their tasks put aside, after one of them; a job without any is there with nulls.
select j.id as job, stored.reference ->> 'href' as href, (stored.reference ->> 'size')::bigint as size
  from (select x.id, x.result from app.jobs x where x.id > %(job)s order by x.id limit %(limit)s) j
  left join lateral (
       select o.reference from app.lanes l join app.outcomes o on o.lane = l.id
        where l.job = j.id and o.reference is not null
        union all
       select j.result -> 'anabranch:reference' where j.result ? 'anabranch:reference') stored on true
 order by j.id;
