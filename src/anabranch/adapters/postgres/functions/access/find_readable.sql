-- Which of some objects of a tier the tasks of a job may read, and what answers for others (S1): `folders`, those that are listed
-- for its platform, like bronze://incoming; `others`, for `default`, which has all folders but those that are listed for others;
-- `related`, the writers of the objects that are parts of the same job; `files`, by address, those of the objects that are
-- published where the platform may see them, also in a former revision that can still be read, and the other files of
-- the same publications: nothing is used before it is approved (P6). Of a file that others may replace, its value is the version
-- that is shown. Uploads from before platforms had folders are readable for the platforms whose jobs named them.
create function app.find_readable(_platform text, _job_id text, _tier text, _keys text[])
returns table (folders text[], others text[], related text[], files jsonb) language plpgsql stable as $$
begin
    perform app.set_platform_filter('*');
    return query select
        coalesce((select p.sources from app.platforms p where p.id = _platform),
                 case when _platform in ('', 'default') then '{}' else array['bronze://' || _platform] end),
        case when _platform = 'default' then array(
            select s from app.platforms p cross join unnest(p.sources) s where p.id <> _platform and s not like '%://'
            union
            select 'bronze://' || k.platform from app.keys k
             where k.platform <> _platform and not exists (select from app.platforms p where p.id = k.platform))
        else '{}' end,
        array(select w.job_id
                from (select distinct split_part(key, '/', 2) as job_id from unnest(_keys) key where key like 'jobs/%') w
               where app.is_related(_job_id, w.job_id)),
        coalesce((select jsonb_object_agg(f.address, f.version order by f.current)
                    from (select o.tier || '://' || o.key as address, o.version, c.source = p.id as current
                            from app.publications p
                            join app.publication_keys k on k.kind = p.kind and k.key = p.key
                            join app.publications c on c.id = k.current and c.action <> 'withdraw'
                            join app.published_files o on o.publication = p.id
                           where p.id in (select f.publication from app.published_files f
                                           where f.tier = _tier and f.key = any(_keys))
                             and (c.source = p.id or exists (
                                  select from app.former_publications x where x.publication = p.id))
                             and not app.is_revoked(p.id)
                             and app.may_read(_platform, split_part(k.key, '/', 1), k.public)
                           union all
                          select 'bronze://' || u.key, null, true from app.former_uploads u
                           where u.platform = _platform and _tier = 'bronze' and u.key = any(_keys)) f), '{}');
end;
$$;
