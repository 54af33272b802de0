-- The name of app.end_member_sessions in release 33.
create function app.bury(_members text) returns integer language sql as $$
    select app.end_member_sessions(_members);
$$;
