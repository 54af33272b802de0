-- Publications record the files that their content was made from, with their versions. Null: made before this was recorded.

alter table app.publications add column made_from jsonb;

-- A published file may be one that lies where others write: the version that is shown is known, and its hash may not be.
alter table app.published_files add column version text;
alter table app.published_files alter column sha256 drop not null;
alter table app.published_files add constraint published_files_known check (sha256 is not null or version is not null);
