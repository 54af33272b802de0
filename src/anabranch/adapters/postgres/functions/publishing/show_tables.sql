-- Make the views in schema geo what some publications say, which were just made: one that shows tables has a view, under a
-- name that belongs to its key, and all other views of its key go. A view that readers' own views use stays in place where
-- its columns stay. AN017: the name belongs to another key; AN018: a table is not finished, or its columns differ.
create function app.show_tables(_made uuid[]) returns void language plpgsql as $$
declare
    _shown record;
    _other record;
begin
    for _shown in
        select p.kind, p.key, t.name, t.parts, t.odd, s.body
          from app.publications p
          join app.publications s on s.id = p.source
          left join lateral (
               select t.name, array_agg(format('select * from geo.%I', t.table_name) order by t.position) as parts,
                      bool_or(l.rows is null) or count(distinct l.columns) > 1 or count(distinct l.geometry_type) > 1 as odd
                 from app.published_tables t join app.layer_tables l on l.name = t.table_name
                where t.publication = p.source and p.action <> 'withdraw'
                group by t.name) t on true
         where p.id = any(_made)
           and (t.name is not null
                or exists (select from app.layer_names n where n.kind = p.kind and n.key = p.key))
         order by t.name
    loop
        if _shown.odd then
            raise exception 'the tables of geo.% are not finished, or have different columns', _shown.name
                using errcode = 'AN018';
        end if;
        if _shown.name is not null then
            insert into app.layer_names as n (name, kind, key) values (_shown.name, _shown.kind, _shown.key)
            on conflict (name) do update set name = excluded.name returning n.kind, n.key into _other;
            if (_other.kind, _other.key) <> (_shown.kind, _shown.key) then
                raise exception 'geo.% belongs to %', _shown.name, (
                    select app.describe_holder(k.owner, _other.kind, _other.key)
                      from app.publication_keys k where k.kind = _shown.kind and k.key = _shown.key) using errcode = 'AN017';
            end if;
            perform app.replace_view(_shown.name, array_to_string(_shown.parts, ' union all '), _shown.body);
        end if;
        for _other in
            select n.name from app.layer_names n
             where n.kind = _shown.kind and n.key = _shown.key and n.name is distinct from _shown.name
        loop
            execute format('drop view if exists geo.%I', _other.name);
        end loop;
    end loop;
end;
$$;
