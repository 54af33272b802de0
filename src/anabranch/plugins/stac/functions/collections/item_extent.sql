-- The box and the times of an item, in the shape of an item.
create function app.item_extent(_document jsonb) returns jsonb language sql immutable as $$
    select jsonb_build_object('bbox', _document -> 'bbox', 'properties', jsonb_build_object(
               'datetime', _document #> '{properties,datetime}',
               'start_datetime', _document #> '{properties,start_datetime}',
               'end_datetime', _document #> '{properties,end_datetime}'));
$$;
