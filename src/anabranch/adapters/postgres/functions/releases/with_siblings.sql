-- Some items, and all others of the releases that they belong to, or that a job publishes for, in the order in which they are
-- locked: items of a release move together. What a job publishes belongs to its own release, if any.
create function app.with_siblings(_keys text[], _job_id text) returns text[] language plpgsql stable as $$
declare
    _before constant text := coalesce(current_setting('anabranch.platform', true), '');
    _releases text[] := array(select r.release_id from app.find_revision(_job_id) r);
    _all text[];
begin
    perform app.set_platform_filter('*');
    if _job_id is null then
        _releases := array(
            select distinct r.release_id
              from app.publications p join app.published_revisions r on r.publication = p.id
             where p.kind = 'item' and p.key = any(_keys));
    end if;
    _all := array(
        select c.key
          from (select unnest(_keys)
                union
                select k.key from unnest(_releases) r(release_id) cross join lateral app.release_keys(r.release_id) k) c(key)
         order by c.key collate "C");
    perform app.set_platform_filter(_before);
    return _all;
end;
$$;
