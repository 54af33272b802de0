-- The audit is only appended to (P7).
create function app.guard_audit() returns trigger language plpgsql as $$
begin
    raise exception 'the audit is only appended to' using errcode = 'check_violation';
end;
$$;

create trigger guard_audit before update or delete or truncate on app.audit
    for each statement execute function app.guard_audit();
