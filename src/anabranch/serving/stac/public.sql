-- The items that are public, of these collections and with these ids, where any are given.
select split_part(key, '/', 1) as collection, array_agg(split_part(key, '/', 2)) as ids
  from (select k.key from app.publication_keys k
         where k.kind = 'item' and k.public
           and split_part(k.key, '/', 1) = any($1::text[])
           and ($2::text[] is null or split_part(k.key, '/', 2) = any($2))
         order by k.key limit $3) found
 group by 1 order by 1
