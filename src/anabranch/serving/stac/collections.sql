-- Collections by id, with their titles, for the links of the landing page.
select id, content ->> 'title' as title from collections 
 where content ->> 'type' = 'Collection' and ($2::text[] is null or id = any($2)) order by id limit $1
