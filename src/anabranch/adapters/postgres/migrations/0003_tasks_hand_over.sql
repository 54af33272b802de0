-- Tasks hand parameters over to the next stage. They stand with the outcome that was accepted, and the lane knows whether
-- any of its tasks did, so that nobody looks for what isn't there.
alter table app.outcomes add column handed jsonb;
alter table app.lanes add column handed boolean not null default false;
