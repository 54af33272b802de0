-- Raise what is against an action on some keys, which the caller has locked: AN010: another has acted meanwhile (the
-- expected number, unless _job_id itself published the same content of the key before: its attempt repeats); AN011: the key
-- is another owner's; AN012: it was never published, or has no such number; AN013: there is nothing to do, or nothing to
-- undo; AN014: retention has removed the content.
create function app.refuse_publications(
    _kind text, _action app.publication_action, _changes jsonb, _owner text, _job_id text
) returns void language plpgsql stable as $$
declare
    _bad record;
begin
    select x.code, x.what into _bad
      from jsonb_to_recordset(_changes) c(key text, number integer, expected integer, body jsonb)
      left join lateral (
           select * from app.publication_keys k where k.kind = _kind and k.key = c.key and k.number > 0 offset 0) k on true
      left join lateral (select * from app.publications p where p.id = k.current and _action <> 'publish' offset 0) p on true
      left join lateral app.find_source(_kind, c.key, _action, c.number) s on _action <> 'publish'
     cross join lateral (
           select case
                  when _action <> 'publish' and k.key is null then 'AN012'
                  when k.owner <> _owner then 'AN011'
                  when c.expected <> coalesce(k.number, 0) and not (_action = 'publish' and exists (
                       select from app.publications o
                        where o.kind = _kind and o.key = c.key and o.job_id = _job_id and o.body = c.body))
                  then 'AN010'
                  when _action = 'publish' then null
                  when _action = 'withdraw' and p.action = 'withdraw' then 'AN013'
                  when _action = 'restore' and p.action <> 'withdraw' then 'AN013'
                  when _action = 'rollback' and s.source is null then 'AN012'
                  when _action = 'rollback' and p.action <> 'withdraw' and s.source = p.source then 'AN013'
                  when _action in ('restore', 'rollback') and not s.available then 'AN014'
                  end as code,
                  concat(_kind, ' ', c.key, ' ', case
                  when k.key is null and c.expected > 0 and _action = 'publish' then 'is at number 0 by now'
                  when k.key is null then 'was never published'
                  when k.owner <> _owner then 'belongs to another platform'
                  when c.expected <> k.number then concat('is at number ', k.number, ' by now, not ', c.expected)
                  when _action = 'withdraw' then 'is not published'
                  when _action = 'restore' and p.action <> 'withdraw' then 'is published'
                  when s.source is null and c.number is null then 'shows its first content'
                  when s.source is null then concat('has no publication with content of number ', c.number)
                  when s.source = p.source and p.action <> 'withdraw' then concat('shows number ', c.number, ' already')
                  else 'has no content any more: its time of keeping is over' end) as what) x
     where x.code is not null
     order by c.key limit 1;
    if found then
        raise exception '%', _bad.what using errcode = _bad.code;
    end if;
end;
$$;
