-- The published collections.
select c.id from app.collections c order by c.id
