-- The platforms that are visible, or one of them; retired ones too.
create function app.list_platforms(_platform text, _id text)
returns table (id text, title text, required_refs text[], optional_refs text[], version_ref text, workflows jsonb,
               approval app.approval_policy, callback_hosts text[], max_unresolved integer, retired boolean, changed_at timestamptz,
               sources text[])
language plpgsql stable as $$
begin
    perform app.set_platform_filter(_platform);
    return query
    select p.id, p.title, p.required_refs, p.optional_refs, p.version_ref, p.workflows, p.approval, p.callback_hosts,
           p.max_unresolved, p.retired_at is not null, p.changed_at, p.sources
      from app.platforms p where _id is null or p.id = _id order by p.id;
end;
$$;
