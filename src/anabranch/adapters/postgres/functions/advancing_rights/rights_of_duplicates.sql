-- The advance rights of reports whose reply was lost: the session holds them and does not know it.
create function app.rights_of_duplicates(_session bigint, _reports jsonb, _answers text[]) returns bigint[]
language plpgsql stable as $$
begin
    return case when array_position(_answers, 'duplicate') is null then '{}' else (
        select coalesce(array_agg(distinct r.id), '{}')
          from rows from (jsonb_to_recordset(_reports) as (lane bigint)) with ordinality as g(lane, place)
          join app.rights r on r.lane = g.lane and r.session = _session and r.takes = 1
         where _answers[g.place] = 'duplicate') end;
end;
$$;
