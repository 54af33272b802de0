-- Make our roles, and the login user a member of each. Roles belong to the whole cluster, where no lock of one
-- database keeps others out: the second finds them made.
do $$
declare
    _role text;
    -- Since 16 a role's maker is its administrator, and may still not act as it.
    _act constant text := case when current_setting('server_version_num')::integer >= 160000 then 'set' else 'member' end;
begin
    foreach _role in array array['anabranch_owner', 'anabranch_app', 'anabranch_reader', 'anabranch_handler', 'anabranch_geo', 'anabranch_features',
                                'anabranch_scaler'] loop
        if pg_catalog.to_regrole(_role) is null then
            begin
                execute format('create role %I nologin', _role);
            exception when duplicate_object or unique_violation then
                null;
            end;
        end if;
        if not pg_catalog.pg_has_role(session_user, _role, _act) then
            begin
                execute format('grant %I to %I', _role, session_user);
            exception when duplicate_object or unique_violation then
                null;
            end;
        end if;
    end loop;
end;
$$;
