-- Each session has the release of the schema that its process was built for, so that an upgrade can compare them.
alter table app.sessions add column schema_release integer;
