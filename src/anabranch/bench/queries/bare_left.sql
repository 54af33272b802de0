-- How many tasks are not completed yet.
select remaining from counter;
