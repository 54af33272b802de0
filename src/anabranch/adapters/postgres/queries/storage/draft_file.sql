-- A file that a task of a job made, by the name under which it is to be published; of several, the newest.
select j.job_id, found.output ->> 'name' as name, found.output ->> 'href' as address,
       found.output ->> 'media_type' as media_type, (found.output ->> 'size')::bigint as size,
       found.output ->> 'sha256' as sha256
  from app.jobs j
  join app.lanes l on l.job = j.id and not l.superseded
  join app.outcomes o on o.lane = l.id and o.outcome = 'completed'
 cross join lateral jsonb_path_query(o.result, '$.outputs[*]', '{}', true) found(output)
 where j.id = %(job)s
   and found.output @> jsonb_build_object('name', %(file)s::text)
   and found.output @? '$ ? (@.href like_regex "^(silver|gold)://" && @.media_type.type() == "string"
                         && @.size.type() == "number" && @.sha256 like_regex "^[0-9a-f]{64}$")'
 order by o.finished_at desc
 limit 1;
