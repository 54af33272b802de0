-- Who has a name in schema geo that the layer of an item would take, in words for a job's platform; null where the item can
-- have it. Publishing refuses such a name, too (AN017); a job looks before it begins to work.
create function app.find_name_holder(_job_id text, _name text, _key text) returns text language sql stable as $$
    select coalesce(
        (select app.describe_holder(app.job_platform(_job_id), n.kind, n.key)
           from app.layer_names n
          where n.name = _name and (n.kind, n.key) <> ('item', _key)),
        (select 'a table or view of a user' from pg_class c
          where c.relnamespace = 'geo'::regnamespace and c.relname = _name
            and (c.relkind, c.relowner) <> ('v', 'anabranch_owner'::regrole)));
$$;
