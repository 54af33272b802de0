-- Begin a new history of a database that was restored, in the transaction that restores it: nothing that a process of the old
-- one holds is valid here (E3). Its sessions have ended, its claims have other tokens, its rights are free, and the
-- storage is that of whoever starts first. Tasks that had started are not charged for it (E9).
set local role anabranch_owner;
update app.sessions set dead_at = statement_timestamp(), end_reason = 'the database was restored' where dead_at is null;
update app.claims set token = (random() * 9007199254740991)::bigint, started_at = null;
update app.rights set session = null, taken_until = null where session is not null;
delete from app.storage_marks;
reset role;
