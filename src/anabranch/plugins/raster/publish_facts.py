"""The outputs and facts of a verified raster for publishing, with a report."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from anabranch.engine.worker.context import Context
from anabranch.plugins.raster.handler_models import Cog, Verified, VerifyParams
from anabranch.plugins.raster.models import Band, Notice
from anabranch.plugins.raster.plan import name_cog
from anabranch.plugins.raster.publication import ASSETS, COG_TYPE, Product, describe_item, find_span, name_item

__all__ = ["collect_outputs"]


def collect_outputs(
    params: VerifyParams, ctx: Context, checked: Sequence[dict[str, Any]], described: dict[str, Any], thumbnail: Path
) -> Verified:
    """Store the thumbnail and the report, and describe all outputs and the item."""
    raster = params.raster
    span, notices = find_span(params.datetime, raster, params.modified)
    warnings = (*params.notices, *raster.warnings, *notices)
    item_id = name_item(raster.name, _identity(params))
    bands = [Band.model_validate(band) for band in checked[0]["bands"]]
    item = describe_item(item_id, params.title, raster, bands, described, span, ASSETS[params.cogs[0].tier])
    report = _report(params, checked, described, warnings)
    outputs = (
        *(_product_of_cog(raster.name, cog) for cog in params.cogs),
        _put(ctx, thumbnail, "thumbnail", "image/png"),
        _put(ctx, _write(ctx.scratch / "report.json", report), "report", "application/json"),
    )
    source = {"sha256": params.sha256, "name": raster.name}
    item |= {"source": source, "outputs": [output.model_dump() for output in outputs]}
    return Verified(outputs=outputs, item=item, warnings=warnings, report=outputs[-1].href)


def _identity(params: VerifyParams) -> dict[str, Any]:
    """What identifies an item: the bytes of its source and the options. The keys never change: the id is their hash."""
    return {
        "source": params.sha256,
        "kind": params.raster.kind,
        "crs": params.raster.mends.crs,
        "target_crs": params.target_crs,
        "tiers": [cog.tier for cog in params.cogs],
        "datetime": params.datetime,
        "title": params.title,
    }


def _product_of_cog(name: str, cog: Cog) -> Product:
    return Product(
        kind="cog",
        asset=ASSETS[cog.tier],
        name=name_cog(name, cog.tier),
        href=cog.address,
        media_type=COG_TYPE,
        size=cog.size,
        sha256=cog.sha256,
    )


def _put(ctx: Context, path: Path, kind: str, media_type: str) -> Product:
    put = ctx.storage.put(path, media_type=media_type)
    return Product(
        kind=kind, asset=kind, name=path.name, href=put.address, media_type=media_type, size=put.size, sha256=put.sha256
    )


def _report(
    params: VerifyParams, checked: Sequence[dict[str, Any]], described: dict[str, Any], warnings: Sequence[Notice]
) -> dict[str, Any]:
    """What was detected, decided and repaired."""
    return {
        "source": {"address": params.source, "sha256": params.sha256},
        "raster": params.raster.model_dump(mode="json"),
        "target_crs": params.target_crs,
        "cogs": [
            {**cog.model_dump(mode="json"), "verified": found} for cog, found in zip(params.cogs, checked, strict=True)
        ],
        "warnings": [warning.model_dump(mode="json") for warning in warnings],
        "software": described["software"],
    }


def _write(path: Path, report: dict[str, Any]) -> Path:
    path.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n")
    return path
