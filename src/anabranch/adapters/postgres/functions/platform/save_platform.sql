-- Make a platform, or change one; null: retire it. Its assets stay as they are (P8). One that is made without sources has the
-- folder of its own name; one that is changed without them keeps its own.
create function app.save_platform(_id text, _given jsonb, _actor text, _correlation_id text) returns boolean
language plpgsql as $$
begin
    perform app.assert_read_committed();
    perform app.set_platform_filter('*');
    perform from app.platforms p where p.id = _id for update;  -- orders that are being written have been, from here on
    if _given is null then
        update app.platforms p set retired_at = app.now(), changed_at = app.now() where p.id = _id and p.retired_at is null;
        if not found then
            return false;
        end if;
    else
        insert into app.platforms as p (id, title, required_refs, optional_refs, version_ref, workflows, approval, callback_hosts,
                                        max_unresolved, sources, made_at, changed_at)
        select _id, g.title, g.required_refs, g.optional_refs, g.version_ref, g.workflows, g.approval, g.callback_hosts,
               g.max_unresolved, coalesce(g.sources, array['bronze://' || _id]), app.now(), app.now()
          from jsonb_to_record(_given) g(title text, required_refs text[], optional_refs text[], version_ref text, workflows jsonb,
                                         approval app.approval_policy, callback_hosts text[], max_unresolved integer,
                                         sources text[])
        on conflict (id) do update
           set title = excluded.title, required_refs = excluded.required_refs, version_ref = excluded.version_ref,
               optional_refs = excluded.optional_refs, workflows = excluded.workflows,
               approval = excluded.approval, callback_hosts = excluded.callback_hosts,
               max_unresolved = excluded.max_unresolved,
               sources = case when jsonb_typeof(_given -> 'sources') = 'array' then excluded.sources else p.sources end,
               changed_at = app.now(), retired_at = null
         where (p.required_refs, p.version_ref) is not distinct from (excluded.required_refs, excluded.version_ref)
            or not exists (select from app.assets a where a.platform = p.id);  -- their ids depend on these (P1)
        if not found then
            return false;
        end if;
    end if;
    perform app.record(_id, _actor, case when _given is null then 'platform.retired' else 'platform.saved' end, null, null, null,
                       null, _given, _correlation_id);
    return true;
end;
$$;
