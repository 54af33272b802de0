-- AN014 where some publications, which were just made, use an object that nothing else uses any more: retention removes it.
-- The caller has locked the objects.
create function app.refuse_expired_objects(_made uuid[]) returns void language plpgsql stable as $$
declare
    _bad record;
begin
    select p.kind, p.key, f.name into _bad
      from app.published_files f
      join app.publications p on p.id = f.publication
      join app.expired_objects o on o.tier = f.tier and o.key = f.key
     where f.publication = any(_made)
       and not exists (select from app.published_files x
                        where x.tier = f.tier and x.key = f.key and x.publication <> all(_made))
     limit 1;
    if found then
        raise exception '% %: % is being removed, its time of keeping is over', _bad.kind, _bad.key, _bad.name
            using errcode = 'AN014';
    end if;
end;
$$;
