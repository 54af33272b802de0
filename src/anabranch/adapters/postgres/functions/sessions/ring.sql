-- Ring the doorbell of queues. A hint without data: lost, doubled or late, it costs one poll at most (E12).
create function app.ring(_queues text[]) returns void language sql as $$
    select pg_notify('anabranch', queue) from unnest(_queues) as queue;
$$;
