"""Seed 003, section 9, as printed. Mended: the imports, the bounds, which are printed as [...], and a job to run it."""
# It stands as it is printed, and has fewer types than we ask of ours.
# mypy: ignore-errors
# fmt: off

from anabranch import HandlerContext, HandlerResult, register_handler, register_job


@register_handler("raster.validate", queue="container-tasks", timeout_seconds=600)
async def validate(ctx: HandlerContext) -> HandlerResult:
    blob_path = ctx.params.get("blob_path")
    # ... validation logic ...
    if blob_path is None:
        return HandlerResult(success=False, error_message="there is no blob_path")
    return HandlerResult(
        success=True,
        output={"crs": "EPSG:4326", "bounds": [0, 0, 1, 1], "size_mb": 150}
    )


@register_job
class ValidateRaster:
    job_type = "validate_raster"
    stages = [{"number": 1, "name": "validate", "task_type": "raster.validate"}]
