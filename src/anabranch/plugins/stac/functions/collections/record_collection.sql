-- Record that a collection was made or changed ('publish') or removed ('withdraw'), by whom and when, with its document
-- (P7): publications of kind `collection`. Who acts is the job's submitter where there is a job. The caller has locked the
-- catalog.
create function app.record_collection(
    _collection text, _action app.publication_action, _document jsonb, _job_id text, _actor text, _reason text
) returns void language plpgsql as $$
declare
    _id constant uuid := gen_random_uuid();
    _submitter record;
    _number integer;
begin
    select s.owner, s.actor into _submitter from app.find_submitter(_job_id) s;
    insert into app.publication_keys (kind, key, owner, number)
    values ('collection', _collection, _submitter.owner, 0)
    on conflict (kind, key) do update set owner = coalesce(publication_keys.owner, excluded.owner);
    insert into app.publications (id, kind, key, number, action, source, job_id, body, actor, reason, at)
    select _id, k.kind, k.key, k.number + 1,
           case when _action = 'publish' and p.action <> 'withdraw' then 'replace' else _action end,
           _id, _job_id, _document, coalesce(_submitter.actor, _actor, 'anabranch'), _reason, app.now()
      from app.publication_keys k left join app.publications p on p.id = k.current
     where k.kind = 'collection' and k.key = _collection
    returning number into _number;
    update app.publication_keys k set current = _id, number = _number
     where k.kind = 'collection' and k.key = _collection;
end;
$$;
