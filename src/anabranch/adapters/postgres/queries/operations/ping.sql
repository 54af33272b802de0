-- Whether the server answers.
select 1 as answer;
