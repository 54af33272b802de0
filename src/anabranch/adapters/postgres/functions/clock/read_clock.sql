-- The time by the server's clock, and how far steps that were noted have moved it.
create function app.read_clock(out at timestamptz, out shifted interval) language sql stable as $$
    select app.now(), coalesce((select c.shifted from app.clock c), '0');
$$;
