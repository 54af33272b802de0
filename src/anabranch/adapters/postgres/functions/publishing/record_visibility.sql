-- Record what some publications take out of sight, while their keys still name the ones before, and what they bring back:
-- for retention, and for submissions with the parameters of the jobs that made it or found it as it should be (E15).
create function app.record_visibility(_made uuid[]) returns void language plpgsql as $$
begin
    with hidden as (
        select p.kind, p.key, b.source, p.action = 'withdraw' as withdrawn
          from app.publications p
          join app.publication_keys k on k.kind = p.kind and k.key = p.key
          join app.publications b on b.id = k.current and b.action <> 'withdraw'
         where p.id = any(_made)),
    noted as (
        insert into app.former_publications (publication, hidden_at, withdrawn)
        select h.source, app.now(), h.withdrawn from hidden h)
    insert into app.superseded_jobs (job_id, kind, key)
    select distinct j.job_id, h.kind, h.key
      from hidden h cross join lateral app.find_answering(h.source) j
    on conflict do nothing;
    with shown as (
        select p.kind, p.key, p.source from app.publications p where p.id = any(_made) and p.action <> 'withdraw'),
    back as (
        delete from app.former_publications f using shown h where f.publication = h.source)
    delete from app.superseded_jobs j
     using shown h cross join lateral app.find_answering(h.source) a
     where j.job_id = a.job_id and j.kind = h.kind and j.key = h.key;
end;
$$;
