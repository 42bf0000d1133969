"""Settings of trackers, to which a run is logged while it trains."""

import re
from typing import Literal

from pydantic import Field, field_validator

from fedorbit.config.section import Section


class TrackingSection(Section):
    """Trackers that log a run while it trains; nothing here changes a result."""

    tensorboard: bool = Field(False, description="event files in the run's folder")
    mlflow: bool = Field(False, description="an MLflow run per method")
    mlflow_experiment: str = Field("fedorbit", min_length=1, description="created if missing")
    mlflow_uri: str | None = Field(
        None, description="default MLFLOW_TRACKING_URI, else MLflow's own default"
    )

    wandb: bool = Field(False, description="a Weights & Biases run per method")
    wandb_project: str = Field("fedorbit", min_length=1, description="created if missing")
    wandb_entity: str | None = Field(None, description="user or team; default the user's own")
    wandb_mode: Literal["online", "offline"] | None = Field(
        None, description="default WANDB_MODE, or else online; offline: for `wandb sync` later"
    )

    @field_validator("mlflow_uri")
    @classmethod
    def _without_password(cls, value: str | None) -> str | None:
        """Refuse what would be copied with the run; and do not repeat it."""
        if value is not None and re.search(r"://[^/]*:[^/]*@", value):
            raise ValueError(
                "must not hold a password, since the configuration is kept in the run's folder and "
                "exported with it; set MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_URI instead"
            )
        return value
