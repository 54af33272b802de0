-- The least that a queue with a fan-in needs: a row per task, an index of the ready ones, and a counter.
create table tasks (id bigint generated always as identity primary key, state smallint not null default 0);
create index tasks_ready on tasks (id) where state = 0;
create table counter (remaining integer not null);
insert into counter values (0);

create function complete(_done bigint[]) returns void language plpgsql as $$
begin
    update tasks set state = 2 where id = any(_done);
    update counter set remaining = remaining - cardinality(_done);
end;
$$;

create function claim(_batch integer) returns bigint[] language plpgsql as $$
declare
    _taken bigint[];
begin
    with taken as (
        update tasks set state = 1
         where id = any(array(select id from tasks where state = 0 order by id limit _batch for update skip locked))
        returning id)
    select array_agg(id) into _taken from taken;
    return _taken;
end;
$$;

-- Both in one commit. It completes first: a claim may keep a lock on a row that another took in the same moment, and so
-- must wait for nothing afterwards.
create function turn(_done bigint[], _batch integer) returns bigint[] language plpgsql as $$
begin
    if _done <> '{}' then
        perform complete(_done);
    end if;
    return claim(_batch);
end;
$$;
