-- Note the mark that an area of storage holds: the first that is noted counts, unless an operator replaces it.
create function app.mark_storage(_area text, _mark text, _url text, _replace boolean) returns void language plpgsql as $$
begin
    insert into app.storage_marks as m (area, mark, url, marked_at) values (_area, _mark, _url, app.now())
    on conflict (area) do update set mark = excluded.mark, url = excluded.url, marked_at = excluded.marked_at
     where _replace;
end;
$$;
