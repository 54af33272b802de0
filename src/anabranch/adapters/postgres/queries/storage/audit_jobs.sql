-- Of these jobs those that are known: whether they have ended, whether results of theirs were put aside, and every text
-- in what their tasks gave, handed over or keep in checkpoints that is an address; and the keys of what was put aside.
select j.job_id, j.state in ('completed', 'failed', 'cancelled') as ended,
       coalesce(bool_or(said.put_aside), false) as put_aside,
       coalesce(array_agg(distinct said.address) filter (where said.address is not null), '{}') as addresses,
       array_remove(array_agg(distinct said.href) || (j.result #>> '{anabranch:reference,href}'), null) as results
  from app.jobs j
  left join app.lanes l on l.job = j.id
  left join lateral (
       select o.reference is not null as put_aside, found.word #>> '{}' as address, o.reference ->> 'href' as href
         from app.outcomes o
         left join lateral jsonb_path_query(jsonb_build_array(o.result, o.handed), 'strict $.** ? (@.type() == "string")')
                           found(word) on found.word #>> '{}' ~ '^(bronze|silver|gold)://'
        where o.lane = l.id
        union all
       select false, found.word #>> '{}', null
         from app.checkpoints c
        cross join lateral jsonb_path_query(c.state, 'strict $.** ? (@.type() == "string")') found(word)
        where c.lane = l.id and found.word #>> '{}' ~ '^(bronze|silver|gold)://') said on true
 where j.job_id = any(%(jobs)s)
 group by j.job_id, j.state, j.result;
