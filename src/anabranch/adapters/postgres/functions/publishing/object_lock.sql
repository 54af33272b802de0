-- Which of a few locks is that of an object: one for all objects of a job.
create function app.object_lock(_key text) returns integer language sql immutable as $$
    select hashtext(split_part(_key, '/', 2)) & 63;
$$;
