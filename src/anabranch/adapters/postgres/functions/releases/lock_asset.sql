-- Lock the asset of the release that a job processes, if it does, before the job itself: in the order of app.submit_release.
create function app.lock_asset(_job_id text) returns void language plpgsql as $$
declare
    _before constant text := coalesce(current_setting('anabranch.platform', true), '');
begin
    perform app.set_platform_filter('*');
    perform from app.assets a
      where a.asset_id = (select x.asset_id from app.revisions v join app.releases x using (release_id) where v.job_id = _job_id)
      for no key update;
    perform app.set_platform_filter(_before);
end;
$$;
