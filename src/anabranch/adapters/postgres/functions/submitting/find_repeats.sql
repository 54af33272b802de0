-- The places of the submissions that make no job: their key has an answer, or the job that is the same exists and answers
-- for them. As app.submit decides, but without its locks: it may decide otherwise later.
create function app.find_repeats(_submissions jsonb) returns table (place integer) language sql stable as $$
    select s.place
      from jsonb_to_recordset(_submissions) as s(
               place integer, head text, tail text, scope text, hash text, rerun boolean, key text)
     where exists (select from app.idempotency_keys k
                    where k.scope = s.scope and k.key = s.key and k.expires_at > app.now())
        or not s.rerun and (select app.answers(j.job_id, j.state, s.hash)
                              from app.jobs j
                             where j.identity = encode(sha256(convert_to(s.head || '0' || s.tail, 'UTF8')), 'hex')
                             order by j.ordinal desc limit 1);
$$;
