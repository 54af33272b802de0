-- Count one duration; one that a step of the clock made negative is none at all.
create function app.measure(_kind app.duration_kind, _name text, _detail text, _took interval) returns void
language sql as $$
    insert into app.durations (kind, name, detail, bucket, entries, seconds)
    select _kind, _name, _detail, app.find_bucket(t.seconds), 1, t.seconds
      from greatest(extract(epoch from _took)::double precision, 0) as t(seconds);
$$;
