-- Add durations to the histograms of their names. A kind has at most _series of them, for the names that came first; all
-- others count under '', because each is twenty series of metrics. When a new one comes and there is no room, those that were
-- not counted for _age move to '', so that the sum of all never falls. One sweeper does it at a time, and none waits.
-- Returns how many rows there were.
create function app.sum_durations(_series integer, _age interval, _batch integer) returns integer language plpgsql as $$
declare
    _summed integer;
begin
    if not exists (select from app.durations) or not pg_try_advisory_xact_lock(hashtextextended('app.sum_durations', 0)) then
        return 0;
    end if;
    with full_kinds as (
        select h.kind from app.histograms h where h.name <> ''
         group by h.kind having count(distinct (h.name, h.detail)) >= _series),
    freed as (
        delete from app.histograms h
         where h.name <> '' and h.kind in (select kind from full_kinds)
           and not exists (select from app.histograms x where x.kind = h.kind and x.name = h.name and x.detail = h.detail
                              and x.counted_at > app.now() - _age)
           and exists (select from app.durations d where d.kind = h.kind and not exists (
                           select from app.histograms x
                            where x.kind = d.kind and x.name = d.name and x.detail = d.detail))
        returning h.*)
    insert into app.histograms as s (kind, name, detail, bucket, entries, seconds, counted_at)
    select f.kind, '', case when f.kind <> 'node' then f.detail else '' end as detail, f.bucket, sum(f.entries),
           sum(f.seconds), app.now()
      from freed f group by 1, 3, 4
        on conflict (kind, name, detail, bucket) do update
       set entries = s.entries + excluded.entries, seconds = s.seconds + excluded.seconds;
    with gone as (
        delete from app.durations where ctid = any(array(select d.ctid from app.durations d limit _batch))
        returning *),
    known as (select distinct h.kind, h.name, h.detail from app.histograms h where h.name <> ''),
    fresh as (
        select n.kind, n.name, n.detail
          from (select g.kind, g.name, g.detail, row_number() over (partition by g.kind order by min(g.id)) as place
                  from gone g where not exists (
                       select from known k where k.kind = g.kind and k.name = g.name and k.detail = g.detail)
                 group by g.kind, g.name, g.detail) n
         where n.place <= _series - (select count(*) from known k where k.kind = n.kind)),
    named as (select kind, name, detail from known union all select kind, name, detail from fresh),
    added as (
        insert into app.histograms as s (kind, name, detail, bucket, entries, seconds, counted_at)
        select g.kind, coalesce(n.name, ''), case when n.name is not null or g.kind <> 'node' then g.detail else '' end as detail,
               g.bucket, sum(g.entries), sum(g.seconds), app.now()
          from gone g left join named n on n.kind = g.kind and n.name = g.name and n.detail = g.detail
         group by 1, 2, 3, 4
            on conflict (kind, name, detail, bucket) do update
           set entries = s.entries + excluded.entries, seconds = s.seconds + excluded.seconds,
               counted_at = excluded.counted_at)
    select count(*)::integer into _summed from gone;
    return _summed;
end;
$$;
