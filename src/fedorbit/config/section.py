"""The base of all tables of the configuration."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A table of the configuration file: unknown keys are refused, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)
