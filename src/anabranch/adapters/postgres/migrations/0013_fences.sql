-- Claims carry a random value, and sessions and rights have random ids: a database that is restored to an earlier point
-- gives the same numbers out again, and must not take what was meant for another history (E3).
alter table app.claims add column token bigint not null default 0;
alter table app.children add column token bigint not null default 0;

alter table app.sessions alter column id drop identity;
alter table app.sessions alter column id set default (random() * 9007199254740991)::bigint;
alter table app.rights alter column id drop identity;
alter table app.rights alter column id set default (random() * 9007199254740991)::bigint;

-- What keeps a process or an advance from going on, since when; and the handlers that a worker has.
alter table app.sessions add column trouble text, add column troubled_at timestamptz;
alter table app.sessions add column handlers text[];
alter table app.rights add column trouble text, add column troubled_at timestamptz;

-- How many bytes of data of its own a task of a lane brings to its claim at most, and all of them together.
alter table app.lanes add column task_bytes integer not null default 0;
alter table app.lanes add column shared_bytes integer not null default 0;
