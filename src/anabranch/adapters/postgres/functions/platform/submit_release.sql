-- Accept a work order of a platform: asset, release, revision, request, audit and job are made in one commit (E2), as
-- app.judge_submission says. Two at once for one asset wait for each other, so that ordinals rise without gaps, and one asset
-- has one unresolved release (P3). An overwrite cancels what the release still waits for.
-- _order: {platform, asset_id, release_id, refs, version, data_type, collection, item_id, title, description, tags, clearance,
-- approval_required, order_hash, settings_at, overwrite, reprocess, again, body, actor, correlation_id, and key: {scope, text,
-- request, keep} if it has one}; with `again` the clearance stays, and the next revision has the callbacks of the one before.
-- The arguments before it are those of app.submit_batch, for one job. _dry_run: nothing is written.
-- verdict: what app.judge_submission says; `full` (the platform has as many unresolved releases as it may have), `owner` (the
-- collection is another's), `clearance` (an order does not let more people read what is there), `changed` (the platform was,
-- after settings_at), or `taken` (the key belongs to another request, E15). Where nothing is made, request and job are those
-- before, if any; callbacks that are new to that job are called at once for what has happened. The same key is the same
-- answer, `replayed`.
create function app.submit_release(_session bigint, _workflows jsonb, _submissions jsonb, _order jsonb, _dry_run boolean)
returns table (
    verdict text, request_id uuid, revision integer, job_id text, state app.job_state, rights bigint[], replayed boolean
) language plpgsql as $$
declare
    _o record;
    _judged record;
    _release record;
    _callbacks constant jsonb := _submissions #> '{0,callbacks}';
    _new uuid[];
    _key record;
begin
    perform app.assert_read_committed();
    select x.* into _o from jsonb_to_record(_order) x(
        platform text, asset_id text, release_id text, refs jsonb, version text, data_type text, collection text, item_id text,
        title text, description text, tags text[], clearance app.clearance, approval_required boolean, order_hash text,
        settings_at timestamptz, overwrite boolean, reprocess boolean, again boolean, body jsonb, actor text, correlation_id text);
    if _o.again then
        _o.clearance := null;  -- it may have been changed since
    end if;
    perform app.set_platform_filter(_o.platform);
    select k.* into _key from jsonb_to_record(_order->'key') k(scope text, text text, request text, keep interval);
    rights := '{}';
    replayed := false;
    if _key.text is not null then
        if not _dry_run then
            perform app.lock_key(_key.scope, _key.text);
        end if;
        return query select k.*, rights, true from app.recall_release(_key.scope, _key.text, _key.request) k;
        if found then
            return;
        end if;
    end if;
    perform from app.platforms p where p.id = _o.platform for key share;
    if not _dry_run then  -- what is decided now is decided before: asset, keys, job and revision are locked in this order
        perform pg_advisory_xact_lock(hashtextextended('anabranch asset ' || _o.asset_id, 0));
        perform from app.assets a where a.asset_id = _o.asset_id for update;
        perform from app.publication_keys k
          where _o.clearance is not null and k.kind = 'item'
            and k.key in (select r.key from app.release_keys(_o.release_id) r) order by k.key for update;
        perform from app.jobs j
          where j.job_id = (select v.job_id from app.revisions v where v.release_id = _o.release_id
                             order by v.revision desc limit 1) for no key update;
        perform from app.revisions v where v.release_id = _o.release_id for no key update;
    end if;
    select w.* into _judged
      from app.judge_submission(_o.asset_id, _o.release_id, _o.order_hash, _o.overwrite, _o.reprocess) w;
    select x.* into _release from app.releases x where x.release_id = _o.release_id;
    verdict := case
        when _o.settings_at <> (select p.changed_at from app.platforms p where p.id = _o.platform) then 'changed'
        when _judged.verdict in ('next', 'same') and (_release.collection, _release.data_type) <> (_o.collection, _o.data_type)
             then 'different'
        when _judged.verdict in ('create', 'next') and not app.may_write(_o.platform, _o.collection) then 'owner'
        when _judged.verdict = 'next' and _o.clearance > _release.clearance then 'clearance'
        when _judged.verdict in ('create', 'next') and app.is_full(_o.platform, _o.release_id) then 'full'
        else _judged.verdict end;
    revision := case verdict when 'create' then 1 when 'next' then _judged.newest + 1 else _judged.newest end;
    if verdict = 'same' and not _dry_run and _callbacks is not null then
        _new := app.add_callbacks(_judged.job_id, _o.platform, _callbacks, _o.actor);
        perform app.announce_release(
                    _o.release_id, v.revision, e.event,
                    case e.event when 'release.processed' then 'job ' || v.job_id else v.decided_by end, v.reason,
                    _o.correlation_id, _new)
           from app.revisions v
          cross join unnest(case
                when v.approval_status <> 'approved' then '{release.processed}'
                when v.revision = (select s.revision from app.shown_publication(_o.release_id) s)
                     then '{release.approved,release.published}'
                else '{release.approved}' end::text[]) with ordinality as e(event, place)
          where v.release_id = _o.release_id and v.revision = _judged.newest and v.processing_status = 'completed'
            and cardinality(_new) > 0;
    end if;
    if _dry_run or verdict not in ('create', 'next') then
        select r.request_id, case when verdict = 'same' then _judged.job_id end, j.state
          into submit_release.request_id, submit_release.job_id, submit_release.state
          from (select 1) one
          left join lateral (select q.request_id from app.requests q
                              where q.release_id = _o.release_id and q.revision = _judged.newest
                              order by q.number limit 1) r on verdict = 'same'
          left join app.jobs j on j.job_id = _judged.job_id and verdict = 'same';
        if _key.text is not null and not _dry_run and state is not null then  -- its job may be purged
            perform app.keep_answer(_key.scope, _key.text, _key.request, _key.keep, job_id, state, false);
        end if;
        return next;
        return;
    end if;
    insert into app.assets as a (asset_id, platform, refs, title, description, tags, made_by, made_at)
    values (_o.asset_id, _o.platform, _o.refs, _o.title, _o.description, _o.tags, _o.actor, app.now())
    on conflict (asset_id) do update set title = excluded.title, description = excluded.description, tags = excluded.tags;
    if verdict = 'create' then
        insert into app.releases (release_id, asset_id, platform, ordinal, version, data_type, collection, item_id, clearance,
                                  made_by, made_at)
        select _o.release_id, _o.asset_id, _o.platform, 1 + coalesce(max(r.ordinal), 0), _o.version, _o.data_type,
               _o.collection, _o.item_id, coalesce(_o.clearance, 'uncleared'), _o.actor, app.now()
          from app.releases r where r.asset_id = _o.asset_id;
        perform app.record(_o.platform, _o.actor, 'release.created', _o.asset_id, _o.release_id, null, null,
                           jsonb_strip_nulls(jsonb_build_object('version', _o.version)), _o.correlation_id);
    else
        perform app.clear_release(_o.platform, _o.release_id, _o.clearance, _o.actor, null, _o.correlation_id)
          where _o.clearance < _release.clearance;
    end if;
    insert into app.revisions (release_id, revision, platform, order_hash, approval_required, submitted_by, made_at)
    values (_o.release_id, submit_release.revision, _o.platform, _o.order_hash, _o.approval_required, _o.actor, app.now());
    perform app.cancel(r.job_id, 'another revision was submitted', _o.actor)
       from app.revisions r join app.jobs j on j.job_id = r.job_id
      where _o.overwrite and r.release_id = _o.release_id and r.revision = _judged.newest
        and j.state in ('pending', 'running', 'waiting');
    select s.job_id, s.state, s.rights into submit_release.job_id, submit_release.state, submit_release.rights
      from app.submit_batch(_session, _workflows, _submissions) s;
    update app.revisions r set job_id = submit_release.job_id
     where r.release_id = _o.release_id and r.revision = submit_release.revision;
    insert into app.requests (platform, asset_id, release_id, revision, body, made_by, correlation_id, made_at)
    values (_o.platform, _o.asset_id, _o.release_id, submit_release.revision, _o.body, _o.actor, _o.correlation_id, app.now())
    returning requests.request_id into submit_release.request_id;
    perform app.record(_o.platform, _o.actor, 'revision.submitted', _o.asset_id, _o.release_id, submit_release.revision, null,
                       jsonb_build_object('request_id', submit_release.request_id, 'job_id', submit_release.job_id),
                       _o.correlation_id);
    if _key.text is not null then
        perform app.keep_answer(_key.scope, _key.text, _key.request, _key.keep, job_id, state, true);
    end if;
    -- The revision follows its job from here on: this calls app.job_moved, though the job may have been watched before.
    update app.jobs j set watched = false where j.job_id = submit_release.job_id;
    update app.jobs j set watched = true where j.job_id = submit_release.job_id;
    return next;
end;
$$;
