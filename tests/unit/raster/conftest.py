"""Shorthands for the tests of rasters."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anabranch.errors import Permanent
from anabranch.plugins.raster.checks.validate import DEFAULT_SETTINGS, validate
from anabranch.plugins.raster.cog.write import write_cog
from anabranch.plugins.raster.models import CogOptions, Profile, Validated, ValidateOptions
from anabranch.plugins.raster.settings import RasterSettings

Refuse = Callable[..., Permanent]
Publish = Callable[..., tuple[Path, CogOptions]]


@pytest.fixture
def refuse() -> Refuse:
    """The error that `validate` raises."""

    def call(path: Path, *, settings: RasterSettings = DEFAULT_SETTINGS, **options: Any) -> Permanent:
        with pytest.raises(Permanent) as caught:
            validate(path, ValidateOptions(**options), settings)
        assert caught.value.remedy
        return caught.value

    return call


@pytest.fixture
def publish(tmp_path: Path) -> Publish:
    """The COG of a raster, made as the workflow makes it, and the options it was made with."""

    def call(source: Path, profile: Profile = Profile.ANALYSIS, **options: Any) -> tuple[Path, CogOptions]:
        asked = {name: options[name] for name in ("target_crs", "input_crs", "raster_type") if name in options}
        found: Validated = validate(source, ValidateOptions(tier=profile.value, **asked))
        made = {name: options[name] for name in ("target_crs", "window", "resolution", "memory_mb") if name in options}
        chosen = CogOptions(kind=found.kind, discrete=found.discrete, profile=profile, repairs=found.repairs, **made)
        target = tmp_path / "cog.tif"
        write_cog(source, target, chosen)
        return target, chosen

    return call
