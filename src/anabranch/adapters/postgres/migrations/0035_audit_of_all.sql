-- The audit is only appended to: nothing else in the database decides what may be in it.
alter table app.audit drop constraint if exists audit_platform_fkey;
