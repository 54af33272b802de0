-- The limits and pauses, by kind and name.
select m.* from app.limits m order by m.kind, m.name;
