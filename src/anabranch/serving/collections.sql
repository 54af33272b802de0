-- Collections by id, with what links say of them; a landing page has no room for more.
select id, content ->> 'title' as title from collections where content ->> 'type' = 'Collection' order by id limit $1
