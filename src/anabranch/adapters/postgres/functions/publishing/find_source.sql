-- The publication whose content an action on a key shows: for a restore the one that was taken away; for a rollback that
-- of a number, or without one the newest before what is shown. available: retention has not removed it.
create function app.find_source(_kind text, _key text, _action app.publication_action, _number integer)
returns table (source uuid, available boolean) language sql stable as $$
    select p.source, (p.source = c.source and c.action <> 'withdraw')
                     or exists (select from app.former_publications f where f.publication = p.source)
      from app.publication_keys k
      join app.publications c on c.id = k.current
      join app.publications p on p.kind = k.kind and p.key = k.key
     where _action <> 'publish' and k.kind = _kind and k.key = _key
       and case when _action = 'rollback' and _number is not null then p.number = _number and p.action <> 'withdraw'
                when _action = 'rollback' then p.source <> c.source
                else p.id = c.id end
     order by p.number desc limit 1;
$$;
