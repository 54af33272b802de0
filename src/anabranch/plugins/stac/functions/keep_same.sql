-- The ids of those of the given items that show the same content already, made by another job with the same software:
-- _job_id leaves them as they are, which is noted (E15), unless they are another owner's, which publishing refuses. The
-- caller has locked the collection, so that of two jobs with the same content one publishes it and the other finds it (P5).
create function app.keep_same(_collection text, _items jsonb, _job_id text) returns text[] language plpgsql as $$
declare
    _same constant jsonb := (
        select jsonb_object_agg(x.id, s.publication)
          from jsonb_to_recordset(_items) x(id text, body jsonb)
          join app.find_shown(_collection, array(select i.id from jsonb_to_recordset(_items) i(id text))) s
            on s.document ->> 'id' = x.id
          join app.publications p on p.id = s.publication and p.job_id is distinct from _job_id
          join app.publication_keys k on k.kind = p.kind and k.key = p.key
         where app.item_content(s.document) = app.item_content(x.body)
           and (k.owner <> (select f.owner from app.find_submitter(_job_id) f)) is not true);
begin
    perform app.note_kept(_job_id, array(select s.publication::uuid from jsonb_each_text(_same) s(id, publication)));
    return array(select jsonb_object_keys(_same));
end;
$$;
