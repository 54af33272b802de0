-- The major version of its handler that a lane's tasks need.
alter table app.lanes add column handler_version integer;

create index lanes_versioned on app.lanes (handler, handler_version) where claimable and handler_version is not null;
