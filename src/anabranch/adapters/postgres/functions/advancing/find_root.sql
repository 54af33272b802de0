-- The job that a job runs for, directly or through others, or the job itself; and the hash of its platform, as the owner of their
-- lanes.
create function app.find_root(_job bigint, out root bigint, out owner bigint) language plpgsql stable as $$
declare
    _found record;
    _next bigint := _job;
begin
    while _next is not null loop
        select j.id, j.platform, j.parent into _found from app.jobs j where j.id = _next;
        exit when not found;
        root := _found.id;
        owner := hashtextextended(_found.platform, 0);
        _next := _found.parent;
    end loop;
end;
$$;
