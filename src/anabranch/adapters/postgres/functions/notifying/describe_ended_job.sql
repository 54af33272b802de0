-- What a message says of a job. Results that are in object storage, or larger than 64 kB together, are null: result_url has
-- them.
create function app.describe_ended_job(_job app.jobs) returns jsonb language plpgsql stable as $$
declare
    _said jsonb := jsonb_build_object(
        'job_id', _job.job_id, 'job_type', _job.workflow, 'status', _job.state, 'result_url', '/api/jobs/' || _job.job_id);
    _final jsonb;
    _stages jsonb;
begin
    if _job.error is not null then
        _said := _said || jsonb_build_object('error', _job.error);
    end if;
    _final := case when _job.result ? 'anabranch:reference' then null else app.plain_outputs(_job.result) end;
    _stages := app.plain_outputs(app.job_result(
        _job.id, (select coalesce(jsonb_agg(n.name), '[]') from app.nodes n where n.job = _job.id and n.state = 'completed')));
    return _said || case when octet_length(_final::text) + octet_length(_stages::text) > 65536
                         then '{"stage_results": null, "final_results": null}'
                         else jsonb_build_object('stage_results', _stages, 'final_results', _final) end;
end;
$$;
