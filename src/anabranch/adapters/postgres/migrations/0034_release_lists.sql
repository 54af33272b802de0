-- Lists of releases begin with what is asked for. Row level security lets no index on JSON be used, so references have rows;
-- nor one on enums, so the statuses of a revision are also text.

create table app.asset_refs (
    platform text collate "C" not null references app.platforms,
    name text collate "C" not null,
    value text collate "C" not null,
    asset_id text collate "C" not null references app.assets,
    primary key (platform, name, value, asset_id)
);

alter table app.asset_refs enable row level security;
alter table app.asset_refs force row level security;
create policy own on app.asset_refs using (current_setting('anabranch.platform', true) in ('*', platform));

select set_config('anabranch.platform', '*', true);
insert into app.asset_refs (platform, name, value, asset_id)
select a.platform, r.key, r.value, a.asset_id from app.assets a cross join lateral jsonb_each_text(a.refs) r;

drop index app.assets_refs;
create index releases_asset on app.releases (asset_id, number);
drop index app.revisions_review;
alter table app.revisions add column statuses text collate "C" not null generated always as (
        case processing_status when 'queued' then 'queued' when 'processing' then 'processing'
                               when 'completed' then 'completed' else 'failed' end || ' ' ||
        case approval_status when 'pending_review' then 'pending_review' when 'approved' then 'approved'
                             when 'rejected' then 'rejected' when 'revoked' then 'revoked' else 'expired' end) stored;
create index revisions_status on app.revisions (platform, statuses);
