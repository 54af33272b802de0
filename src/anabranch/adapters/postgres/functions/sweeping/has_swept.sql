-- Whether a sweeper has been at work for this long, and still is: what it does should be done by now.
create function app.has_swept(_for interval) returns boolean language sql stable as $$
    select exists (select from app.duties d
                    where d.name = 'sweeper' and d.unbroken_since < app.now() - _for and d.ticked_at > app.now() - _for);
$$;
