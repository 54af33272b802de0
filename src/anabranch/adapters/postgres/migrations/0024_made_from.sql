-- Publications record the files that their content was made from, with their versions. Null: made before this was recorded.

alter table app.publications add column made_from jsonb;
