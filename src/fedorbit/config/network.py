"""Links between satellites, and between servers: `[network]`."""

from typing import Literal

from pydantic import Field

from fedorbit.config.section import Section


class NetworkSection(Section):
    """Links between satellites, and between servers; rates are in `[link_rates]`."""

    isl: Literal["assumed", "line-of-sight", "none"] = Field(
        "assumed",
        description="assumed: satellites of an orbit always reach each other, as in the paper; "
        "line-of-sight: from geometry; none: through the ground alone",
    )
    in_plane: bool = Field(True, description="links between satellites of one orbit")
    cross_plane: bool = Field(True, description="links between satellites of different orbits")
    max_range_km: float = Field(5000.0, ge=0, le=1e6, description="longest link; 0: no limit")
    grazing_km: float = Field(
        80.0, ge=0, le=1000, description="height above ground that a link must keep"
    )
    terminals: int = Field(
        0, ge=0, le=1000, description="links of a satellite at a time; 0: no limit"
    )
    acquisition_s: float = Field(
        0.0, ge=0, le=3600, description="seconds until a link that has become possible can be used"
    )
    max_rate_deg_s: float = Field(
        0.0, ge=0, le=360, description="fastest turn of the line of sight; 0: no limit"
    )
    servers: Literal["backhaul", "line-of-sight"] = Field(
        "backhaul",
        description="links between servers; line-of-sight: those that see each other, and the "
        "global model is with the first. Needs physical links and another isl than assumed",
    )
