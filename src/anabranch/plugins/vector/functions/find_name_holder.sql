-- Who has a name in schema geo that the layer of an item would take, in words; null where the item can have it. What a job's
-- platform may not see is not named. Publishing refuses it, too (AN017): this is to know it before the work.
create function app.find_name_holder(_job_id text, _name text, _key text) returns text language sql stable as $$
    select coalesce(
        (select case when app.may_read(app.job_platform(_job_id), split_part(n.key, '/', 1), false)
                     then format('%s %s', n.kind, n.key) else 'another platform' end
           from app.layer_names n
          where n.name = _name and (n.kind, n.key) <> ('item', _key)),
        (select 'a table or view of a user' from pg_class c
          where c.relnamespace = 'geo'::regnamespace and c.relname = _name
            and (c.relkind, c.relowner) <> ('v', 'anabranch_owner'::regrole)));
$$;
