-- Accept a work order of a platform: asset, release, revision, request, audit and job are made in one commit (E2), as
-- app.weigh_submission says. Two at once for one asset wait for each other, so that ordinals rise without gaps, and one asset
-- has one unresolved release (P3). An overwrite cancels what the release still waits for. _order: {platform, asset_id,
-- release_id, refs, version, data_type, collection, item_id, title, description, tags, clearance, approval_required,
-- order_hash, overwrite, reprocess, body, actor, correlation_id, and key: {scope, text, request, keep} if it has one}; the
-- arguments before it are those of app.submit_batch, for one job. `full`: the platform has as many unresolved revisions as it may have. _dry_run: nothing is written. Without a verdict that makes something, request and job are those before, if any.
-- The same key is the same answer, `replayed`; the verdict `taken`: the key belongs to another request (E15).
create function app.submit_release(_session bigint, _workflows jsonb, _submissions jsonb, _order jsonb, _dry_run boolean)
returns table (
    verdict text, request_id uuid, revision integer, job_id text, state app.job_state, rights bigint[], replayed boolean
) language plpgsql as $$
declare
    _o record;
    _weighed record;
    _key record;
begin
    perform app.assert_read_committed();
    select x.* into _o from jsonb_to_record(_order) x(
        platform text, asset_id text, release_id text, refs jsonb, version text, data_type text, collection text, item_id text,
        title text, description text, tags text[], clearance app.clearance, approval_required boolean, order_hash text,
        overwrite boolean, reprocess boolean, body jsonb, actor text, correlation_id text);
    perform app.see(_o.platform);
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
    if not _dry_run then
        insert into app.assets (asset_id, platform, refs, title, description, tags, made_by, made_at)
        values (_o.asset_id, _o.platform, _o.refs, _o.title, _o.description, _o.tags, _o.actor, app.now())
        on conflict do nothing;
    end if;
    perform from app.assets a where a.asset_id = _o.asset_id for update;
    select w.* into _weighed
      from app.weigh_submission(_o.asset_id, _o.release_id, _o.order_hash, _o.overwrite, _o.reprocess) w;
    verdict := case
        when _weighed.verdict in ('create', 'next') and (
             select count(*) >= p.max_unresolved
               from app.platforms p
               join app.revisions v on v.platform = p.id and v.approval_status = 'pending_review'
                                   and v.processing_status <> 'failed'
              where p.id = _o.platform group by p.max_unresolved) then 'full'
        else _weighed.verdict end;
    revision := case verdict when 'create' then 1 when 'next' then _weighed.newest + 1 else _weighed.newest end;
    if _dry_run or verdict not in ('create', 'next') then
        select r.request_id, case when verdict = 'same' then _weighed.job_id end, j.state
          into submit_release.request_id, submit_release.job_id, submit_release.state
          from (select 1) one
          left join lateral (select q.request_id from app.requests q
                              where q.release_id = _o.release_id and q.revision = _weighed.newest
                              order by q.number limit 1) r on verdict = 'same'
          left join app.jobs j on j.job_id = _weighed.job_id and verdict = 'same';
        if _key.text is not null and not _dry_run and state is not null then  -- its job may be purged
            perform app.keep_answer(_key.scope, _key.text, _key.request, _key.keep, job_id, state, false);
        end if;
        return next;
        return;
    end if;
    if verdict = 'create' then
        insert into app.releases (release_id, asset_id, platform, ordinal, version, data_type, collection, item_id, clearance,
                                  made_by, made_at)
        select _o.release_id, _o.asset_id, _o.platform, 1 + coalesce(max(r.ordinal), 0), _o.version, _o.data_type,
               _o.collection, _o.item_id, _o.clearance, _o.actor, app.now()
          from app.releases r where r.asset_id = _o.asset_id;
        perform app.record(_o.platform, _o.actor, 'release.created', _o.asset_id, _o.release_id, null, null,
                           jsonb_strip_nulls(jsonb_build_object('version', _o.version)), _o.correlation_id);
    elsif _o.overwrite then
        perform app.cancel(r.job_id, 'another revision was submitted', _o.actor)
           from app.revisions r join app.jobs j on j.job_id = r.job_id
          where r.release_id = _o.release_id and r.revision = _weighed.newest
            and j.state in ('pending', 'running', 'waiting');
    end if;
    insert into app.revisions (release_id, revision, platform, order_hash, approval_required, submitted_by, made_at)
    values (_o.release_id, submit_release.revision, _o.platform, _o.order_hash, _o.approval_required, _o.actor, app.now());
    select s.job_id, s.state, s.rights into submit_release.job_id, submit_release.state, submit_release.rights
      from app.submit_batch(_session, _workflows, _submissions) s;
    update app.revisions r set job_id = submit_release.job_id
     where r.release_id = _o.release_id and r.revision = submit_release.revision;
    -- The revision follows its job from here on: this calls app.job_moved, though the job may have been watched before.
    update app.jobs j set watched = false where j.job_id = submit_release.job_id;
    update app.jobs j set watched = true where j.job_id = submit_release.job_id;
    insert into app.requests (platform, asset_id, release_id, revision, body, made_by, correlation_id, made_at)
    values (_o.platform, _o.asset_id, _o.release_id, submit_release.revision, _o.body, _o.actor, _o.correlation_id, app.now())
    returning requests.request_id into submit_release.request_id;
    perform app.record(_o.platform, _o.actor, 'revision.submitted', _o.asset_id, _o.release_id, submit_release.revision, null,
                       jsonb_build_object('request_id', submit_release.request_id, 'job_id', submit_release.job_id),
                       _o.correlation_id);
    if _key.text is not null then
        perform app.keep_answer(_key.scope, _key.text, _key.request, _key.keep, job_id, state, true);
    end if;
    return next;
end;
$$;
