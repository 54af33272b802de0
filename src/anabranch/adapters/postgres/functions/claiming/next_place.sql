-- The place of a lane that has something to claim from now on: the round after the one that its owner is at, and one round
-- after the last lane that its root job has waiting. So each root job has one lane in a round, however many wait, and no
-- lane comes into a round that has begun: all before it are finite (E13, E22).
create function app.next_place(_queue text, _priority smallint, _owner bigint, _root bigint) returns bigint language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
declare
    _place bigint;
begin
    select t.place into _place from app.turns t where t.queue = _queue and t.priority = _priority and t.owner = _owner;
    if not found then
        -- Higher than all places before, so that no lane is behind if the row was removed in this moment.
        _place := nextval('app.turn_numbers');
        perform app.save_turn((_queue, _priority, _owner, 0, _place));
    end if;
    return 1 + greatest(_place, (
        select l.place from app.lanes l
         where l.root = _root and l.queue = _queue and l.priority = _priority
           and (l.claimable or l.held is not null and not l.closed)
         order by l.place desc limit 1));
end;
$$;
