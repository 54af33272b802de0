-- The references of an asset are found one by one. Row level security lets no index on their JSON be used, because its
-- operators might leak.
create function app.keep_refs() returns trigger language plpgsql as $$
begin
    insert into app.asset_refs (platform, name, value, asset_id)
    select new.platform, r.key, r.value, new.asset_id from jsonb_each_text(new.refs) r;
    return null;
end;
$$;

create trigger keep_refs after insert on app.assets for each row execute function app.keep_refs();
