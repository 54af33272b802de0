-- Store an owner's turn. It never waits: where another claim is storing the same one, that will do.
create function app.save_turn(_turn app.turns) returns void language plpgsql as $$
begin
    if pg_try_advisory_xact_lock(hashtextextended(format('app.turns %s %s %s', _turn.priority, _turn.owner, _turn.queue), 0)) then
        insert into app.turns as t (queue, priority, owner, number, place)
        values (_turn.queue, _turn.priority, _turn.owner, _turn.number, _turn.place)
        on conflict (queue, priority, owner) do update
           set number = greatest(t.number, excluded.number), place = greatest(t.place, excluded.place);
    end if;
end;
$$;
