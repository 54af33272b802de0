-- Record that a release shows an earlier revision again, which the caller does in the same transaction; no row: there is no such
-- release. A number is that of a publication of its item; without one, the one before.
create function app.note_rollback(
    _platform text, _release_id text, _number integer, _actor text, _reason text, _correlation_id text
) returns table (collection text, item_id text) language plpgsql as $$
begin
    perform app.assert_read_committed();
    perform app.see(_platform);
    perform from app.releases x where x.release_id = _release_id for update;  -- so that a revoke is recorded before or after it
    perform app.record(x.platform, _actor, 'release.rolled_back', x.asset_id, _release_id, null, _reason,
                       jsonb_strip_nulls(jsonb_build_object('number', _number)), _correlation_id)
       from app.releases x where x.release_id = _release_id;
    return query select x.collection, x.item_id from app.releases x where x.release_id = _release_id;
end;
$$;
