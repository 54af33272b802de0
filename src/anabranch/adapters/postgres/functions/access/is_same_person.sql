-- Whether two who act are one person: the platform before the name, and the id of the key or the issuer of the token, in
-- parentheses at the end, may differ.
create function app.is_same_person(_one text, _other text) returns boolean language sql immutable as $$
    select regexp_replace(_one, '^[^/]*/| \([^ ]*\)$', '', 'g') = regexp_replace(_other, '^[^/]*/| \([^ ]*\)$', '', 'g');
$$;
