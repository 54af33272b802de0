-- Owners and their root jobs are served in turn. Lanes that are open keep their order, before all that are opened later.

create table app.turns (
    queue text not null,
    priority smallint not null,
    owner bigint not null,
    number bigint not null,
    place bigint not null,
    primary key (queue, priority, owner)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

create sequence app.turn_numbers;

alter table app.lanes
    add owner bigint not null default 0, add root bigint not null default 0, add place bigint not null default 0;

with recursive above as (
    select j.id as job, j.id, j.parent, j.scope from app.jobs j
     where exists (select from app.lanes l where l.job = j.id and not l.closed)
    union all
    select a.job, j.id, j.parent, j.scope from above a join app.jobs j on j.id = a.parent)
update app.lanes l set root = a.id, owner = hashtextextended(a.scope, 0)
  from above a
 where a.job = l.job and not l.closed and not exists (select from app.jobs j where j.id = a.parent);

update app.lanes l set place = o.place
  from (select x.id, row_number() over (partition by x.queue, x.priority, x.owner order by x.served_at, x.id) as place
          from app.lanes x where not x.closed) o
 where o.id = l.id;

insert into app.turns (queue, priority, owner, number, place)
select l.queue, l.priority, l.owner, 0, max(l.place) from app.lanes l where not l.closed group by l.queue, l.priority, l.owner;

select setval('app.turn_numbers', greatest(1, max(t.place))) from app.turns t;

drop index app.lanes_claimable, app.lanes_open, app.lanes_held;
create index lanes_claimable on app.lanes (queue, priority, owner, place, root, id) where claimable;
create index lanes_open on app.lanes (queue, priority, owner) where not closed;
create index lanes_held on app.lanes (held, queue, priority, owner, place, root, id) where held is not null and not closed;
create index lanes_root on app.lanes (root, queue, priority, place) where claimable or held is not null and not closed;
