-- Whether a platform may publish into a collection: it owns it or is one of its writers, or nobody is known to own it, and
-- it is not the one that orders of another platform go to. Null: whoever acts may.
create function app.may_write(_platform text, _collection text) returns boolean language plpgsql stable as $$
declare
    _before constant text := coalesce(current_setting('anabranch.platform', true), '');
    _free boolean;
begin
    if _platform is null or app.may_read(_platform, _collection, false) then
        return true;
    end if;
    perform app.set_platform_filter('*');
    _free := not exists (select from app.publication_keys k
                          where k.kind = 'collection' and k.key = _collection and k.owner is not null)
             and not exists (select from app.platforms p cross join jsonb_object_keys(p.workflows) data_type
                              where p.id <> _platform and _collection = p.id || '-' || data_type);
    perform app.set_platform_filter(_before);
    return _free;
end;
$$;
