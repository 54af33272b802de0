-- The gates of a release's job are answered by decisions on the release alone (P4): AN032. Parts of other jobs wait as ever.
create function app.guard_signals() returns trigger language plpgsql as $$
declare
    _release text;
begin
    select app.find_deciding_release(j.job_id) into _release
      from app.jobs j where j.id = new.job and current_setting('anabranch.deciding', true) is distinct from j.job_id;
    if _release is not null then
        raise exception 'release % decides about this job', _release using errcode = 'AN032';
    end if;
    return new;
end;
$$;

create trigger guard_signals before insert on app.signals for each row execute function app.guard_signals();
