-- Refuse any other isolation: transitions read states after their locks, which needs a fresh snapshot per statement.
create function app.assert_read_committed() returns void language plpgsql stable as $$
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'engine functions need READ COMMITTED, not %', current_setting('transaction_isolation')
            using errcode = 'invalid_transaction_state';
    end if;
end;
$$;
