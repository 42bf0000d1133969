"""Settings of satellites as machines: speed, energy, and rates of their links.

None of these tables is set by default: without them training takes no time, needs no power, and
any contact is long enough for a model.
"""

from typing import Any

from pydantic import Field, field_validator

from fedorbit.config.section import Section

MAX_SATELLITES = 200_000


class EnergySection(Section):
    """A battery that the Sun charges and training drains."""

    battery_wh: float = Field(gt=0, le=1e9, description="usable capacity")
    solar_w: float = Field(
        ge=0, le=1e9, description="power in sunlight that is left for training, net of the bus"
    )
    training_w: float = Field(gt=0, le=1e9, description="power while training")
    initial_charge: float = Field(1.0, ge=0, le=1, description="share of the battery at the start")


class OnboardSection(Section):
    """Training speed of satellites."""

    samples_per_s: tuple[float, ...] = Field(
        min_length=1,
        max_length=MAX_SATELLITES,
        strict=False,
        description="training samples per second and model; one number, or one per satellite",
    )
    speed_spread: float = Field(
        0.0, ge=0, le=3, description="sigma of a log-normal factor drawn for each satellite"
    )
    deadline: bool = Field(
        False, description="true: only whole epochs that fit into schedule.round_s are done"
    )
    energy: EnergySection | None = Field(
        None, description="battery and sunlight; without it power is no limit"
    )

    @field_validator("samples_per_s", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, int | float | list | tuple):
            raise ValueError(f"must be a number, or a list of one per satellite, got {value!r}")
        return value if isinstance(value, list | tuple) else (value,)

    @field_validator("samples_per_s")
    @classmethod
    def _positive(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        for speed in value:
            if not 1e-9 <= speed <= 1e12:
                raise ValueError(f"must be at least 1e-9 and at most 1e12, got {speed:g}")
        return value


class LinkRatesSection(Section):
    """Rates of links; a link without a rate takes no time."""

    to_ground_mbps: float | None = Field(
        None, ge=1e-6, le=1e9, description="from an orbit to the ground, in megabits per second"
    )
    from_ground_mbps: float | None = Field(
        None, ge=1e-6, le=1e9, description="from the ground to an orbit"
    )
    isl_mbps: float | None = Field(
        None,
        ge=1e-6,
        le=1e9,
        description="between satellites; counts in the time on board, or in that of routes",
    )
