-- A task's result, or the reference that stands for it (E20).
create function app.result_of(_outcome app.outcomes) returns jsonb language sql immutable as $$
    select case when _outcome.reference is null then _outcome.result
                else jsonb_build_object('anabranch:reference', _outcome.reference) end;
$$;
