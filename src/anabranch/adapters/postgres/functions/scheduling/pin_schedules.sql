-- Pin schedules to the definitions that their workflows have now: [{id, version, workflow_hash, parameters, trouble}, …]. One
-- that was changed meanwhile was pinned with that. Returns how many.
create function app.pin_schedules(_pins jsonb) returns integer language plpgsql as $$
declare
    _pinned integer;
begin
    perform app.assert_read_committed();
    update app.schedules s
       set workflow_hash = coalesce(p.workflow_hash, s.workflow_hash), parameters = coalesce(p.parameters, s.parameters),
           trouble = p.trouble, version = s.version + 1
      from jsonb_to_recordset(_pins) as p(id bigint, version integer, workflow_hash text, parameters jsonb, trouble text)
     where s.id = p.id and s.version = p.version;
    get diagnostics _pinned = row_count;
    return _pinned;
end;
$$;
