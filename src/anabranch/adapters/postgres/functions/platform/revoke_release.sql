-- Take back the approval of a release: no revision of it is shown any more (P6). The caller withdraws its item in the same
-- transaction. verdict: `missing`, `not_approved` or `done`, with what to withdraw.
create function app.revoke_release(_platform text, _release_id text, _actor text, _reason text, _correlation_id text)
returns table (verdict text, collection text, item_id text) language plpgsql as $$
declare
    _x record;
    _revoked integer[];
begin
    perform app.assert_read_committed();
    perform app.see(_platform);
    select x.* into _x from app.releases x where x.release_id = _release_id for update;
    if not found then
        return query select 'missing', null, null;
        return;
    end if;
    with revoked as (
        update app.revisions v
           set approval_status = 'revoked', decided_by = _actor, decided_at = app.now(), reason = _reason
         where v.release_id = _release_id and v.approval_status = 'approved'
        returning v.revision)
    select array_agg(r.revision order by r.revision) into _revoked from revoked r;
    if _revoked is null then
        return query select 'not_approved', null, null;
        return;
    end if;
    perform app.record(_x.platform, _actor, 'release.revoked', _x.asset_id, _release_id, _revoked[cardinality(_revoked)], _reason,
                       jsonb_build_object('revisions', _revoked), _correlation_id);
    return query select 'done', _x.collection, _x.item_id;
end;
$$;
