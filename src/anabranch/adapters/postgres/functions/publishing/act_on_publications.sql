-- Change what readers see of some keys, all or none (P5): publish new content, or withdraw, restore or roll back. Each
-- writes the next number of its key. _changes: [{key, expected, number, body, outputs, tables, manifest, made_from}, …], where
-- `expected` is the number that the caller saw last, and `number` what to roll back to. Content that is shown already, or
-- that the same job has published before, changes nothing (unless it lacks a manifest that it gets now): an attempt that
-- repeats never undoes what came after it. A job that finds another's content as it would publish it is noted (E15).
-- Who acts is the job's submitter where there is a job, never what it says (P7); to withdraw, that must be an admin (S6), but
-- for what the revision that it publishes does not have.
-- Callers lock the catalog before, and the job after; that of a release is locked here already, since its cancellation locks
-- the job before the messages of the release. Returns the publications that it made.
create function app.act_on_publications(
    _kind text, _action app.publication_action, _changes jsonb, _job_id text, _owner text, _actor text, _reason text
) returns uuid[] language plpgsql as $$
declare
    _submitter record;
    _keys constant text[] := array(select c.key from jsonb_to_recordset(_changes) c(key text) order by c.key collate "C");
    _made uuid[];
begin
    perform app.assert_read_committed();
    select s.* into _submitter from app.find_submitter(_job_id) s;
    if found then
        _owner := _submitter.owner;
        _actor := _submitter.actor;
        if _action = 'withdraw' and not _submitter.may_withdraw
           and not _keys <@ array(select o.key from app.find_outdated(_job_id) o) then
            raise exception 'only a job that an admin submitted withdraws what is published' using errcode = 'AN016';
        end if;
    end if;
    insert into app.publication_keys (kind, key, owner, number)
    select _kind, c.key, _owner, 0 from unnest(_keys) c(key) where _action = 'publish'
    on conflict do nothing;
    -- Nobody knows how many keys there are when this is planned: each is looked up by itself, in their order.
    perform from unnest(case when _kind = 'item' then app.with_siblings(_keys, _job_id) else _keys end) c(key)
     cross join lateral (select from app.publication_keys k where k.kind = _kind and k.key = c.key for update) k;
    perform from app.jobs j
      where j.job_id = _job_id and exists (select from app.find_revision(_job_id)) for share;
    perform app.refuse_publications(_kind, _action, _changes, _owner, _job_id);
    insert into app.signing_keys (id, public_key, first_used_at)
    select distinct c.manifest #>> '{key,id}', c.manifest #>> '{key,public_key}', app.now()
      from jsonb_to_recordset(_changes) c(manifest jsonb) where c.manifest is not null
    on conflict do nothing;
    with given as materialized (
        select c.*, gen_random_uuid() as id
          from jsonb_to_recordset(_changes) c(key text, number integer, body jsonb, manifest jsonb, made_from jsonb)),
    made as (
        insert into app.publications (id, kind, key, number, action, source, job_id, body, manifest, signing_key, handlers,
                                      actor, reason, at, made_from)
        select g.id, _kind, g.key, k.number + 1,
               case when _action = 'publish' and p.action <> 'withdraw' then 'replace' else _action end,
               coalesce(s.source, g.id), _job_id, g.body, g.manifest ->> 'envelope', g.manifest #>> '{key,id}',
               g.manifest -> 'handlers', coalesce(_actor, 'anabranch'), _reason, app.now(), g.made_from
          from given g
         cross join lateral (select * from app.publication_keys k where k.kind = _kind and k.key = g.key offset 0) k
          left join lateral (select * from app.publications p where p.id = k.current offset 0) p on true
          left join lateral (
               select b.id from app.publications b where b.id = p.source and p.action <> 'withdraw' offset 0) b on true
          left join lateral app.find_source(_kind, g.key, _action, g.number) s on _action <> 'publish'
         where _action <> 'publish'
            or not exists (select from app.publications o
                            where o.kind = _kind and o.key = g.key and o.body = g.body
                              and (o.id = b.id or o.job_id = _job_id) and (o.manifest is not null or g.manifest is null))
        returning id)
    select coalesce(array_agg(m.id), '{}') into _made from made m;
    perform app.note_kept(_job_id, array(
        select s.id
          from jsonb_to_recordset(_changes) c(key text, body jsonb)
         cross join lateral (select * from app.publication_keys k where k.kind = _kind and k.key = c.key offset 0) k
         cross join lateral (select * from app.publications p where p.id = k.current and p.action <> 'withdraw' offset 0) p
         cross join lateral (select * from app.publications s where s.id = p.source and s.body = c.body offset 0) s
         where _action = 'publish' and cardinality(_made) < cardinality(_keys) and s.job_id <> _job_id));
    perform app.lock_objects(array(
        select o.key from jsonb_to_recordset(_changes) c(outputs jsonb)
         cross join lateral jsonb_to_recordset(c.outputs) o(key text)));
    insert into app.published_files (publication, name, kind, tier, key, media_type, size, sha256, version)
    select p.id, o.name, o.kind, o.tier, o.key, o.media_type, o.size, o.sha256, o.version
      from jsonb_to_recordset(_changes) c(key text, outputs jsonb)
      join app.publications p on p.id = any(_made) and p.key = c.key
     cross join lateral jsonb_to_recordset(c.outputs)
           o(name text, kind text, tier text, key text, media_type text, size bigint, sha256 text, version text);
    insert into app.published_tables (publication, position, name, table_name)
    select p.id, t.position, c.layer, t.name
      from jsonb_to_recordset(_changes) c(key text, layer text, tables text[])
      join app.publications p on p.id = any(_made) and p.key = c.key
     cross join lateral unnest(c.tables) with ordinality t(name, position);
    perform app.refuse_expired_objects(_made);
    perform app.record_visibility(_made);
    update app.publication_keys k set current = p.id, number = p.number, owner = coalesce(k.owner, _owner)
      from app.publications p where p.id = any(_made) and p.kind = k.kind and p.key = k.key;
    perform app.show_tables(_made);
    return _made;
end;
$$;
