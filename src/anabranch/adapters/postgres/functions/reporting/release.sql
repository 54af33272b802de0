-- End attempts on behalf of the sessions that hold them and can't; each report names its session. The rights that come
-- of it are free to take. Returns how many there were.
create function app.release(_reports jsonb) returns integer language sql as $$
    select cardinality(array_positions(r.answers, 'applied')) + cardinality(array_positions(r.answers, 'stale'))
      from app.report(null, _reports) r;
$$;
