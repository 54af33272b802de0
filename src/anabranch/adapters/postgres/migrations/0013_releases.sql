-- Functions have a release, which only rises: processes of an older one leave them alone.
delete from app.deployment;
alter table app.deployment add column if not exists release integer not null;
alter table app.deployment add column if not exists oldest_release integer not null;
