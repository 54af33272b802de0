-- Whether two who act are one person: the platform before the name, and the id of the key or the issuer of the token, in
-- parentheses at the end, may differ, and so may upper and lower case, blanks at the ends, and Unicode forms (NFKC).
create function app.is_same_person(_one text, _other text) returns boolean language sql immutable as $$
    select count(distinct lower(btrim(normalize(regexp_replace(a.actor, '^[^/]*/| \([^ ]*\)$', '', 'g'), nfkc)))) = 1
      from unnest(array[_one, _other]) a(actor);
$$;
