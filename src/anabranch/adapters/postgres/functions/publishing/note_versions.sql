-- Record the versions that the files have by now that items of a collection were made from, where their content is the same:
-- they count as unchanged then, and are not read again. _files: [{item, versions, sha256}, …], both by address; a file without
-- a hash has the version that was recorded.
create function app.note_versions(_collection text, _files jsonb) returns void language sql as $$
    update app.publications p set made_from = p.made_from || jsonb_build_object('versions', f.versions)
      from jsonb_to_recordset(_files) f(item text, versions jsonb, sha256 jsonb)
     cross join lateral (select array(select jsonb_object_keys(f.sha256)) as addresses) read
     where p.kind = 'item' and p.key = _collection || '/' || f.item
       and p.made_from -> 'sha256' @> f.sha256
       and (p.made_from -> 'versions') - read.addresses = f.versions - read.addresses;
$$;
