"""Tables about images: which they are, and how they are dealt to orbits and satellites."""

from typing import Literal, Self

from pydantic import Field, model_validator

from fedorbit.config.section import Section

SCHEMES = "pathological, dirichlet or ground-track"
WITHIN_AN_ORBIT = "Dirichlet over the satellites of an orbit"


class SyntheticSection(Section):
    """Settings of the built-in image generator."""

    classes: int = Field(10, ge=1, le=1000, description="number of classes")
    samples: int = Field(6000, ge=1, le=10_000_000, description="number of images")
    size: int = Field(32, ge=8, le=256, description="pixels of a side; images are square")
    channels: int = Field(3, ge=1, le=32, description="number of bands")
    seed: int = Field(0, ge=0, le=2**63 - 1, description="of the images, not of the run")


class DataSection(Section):
    """The images and how they are split into training and test."""

    name: str = Field("synthetic", description="a prepared dataset, see `fedorbit data list`")
    test_share: float = Field(
        0.2, gt=0, lt=1, description="images for testing, stratified; an official split replaces it"
    )
    share: float | None = Field(
        None, gt=0, le=1, description="part of every class that is used; default: all images"
    )
    synthetic: SyntheticSection = Field(
        SyntheticSection(), description="the generator, for data.name synthetic"
    )


class PathologicalSection(Section):
    """Every orbit owns its own classes."""

    scheme: Literal["pathological"] = Field(description=SCHEMES)
    satellite_alpha: float = Field(0.5, gt=0, le=1e6, description=WITHIN_AN_ORBIT)


class DirichletSection(Section):
    """Orbits share each class in proportions drawn from a Dirichlet distribution."""

    scheme: Literal["dirichlet"] = Field("dirichlet", description=SCHEMES)
    alpha: float = Field(
        0.5, gt=0, le=1e6, description="Dirichlet over orbits; small: skewed, large: even"
    )
    satellite_alpha: float = Field(0.5, gt=0, le=1e6, description=WITHIN_AN_ORBIT)


class GroundTrackSection(Section):
    """A sample goes to the satellites that really fly over its place."""

    scheme: Literal["ground-track"] = Field(description=SCHEMES)
    swath_half_width_km: float | None = Field(
        None,
        gt=0,
        le=10_000,
        description="half of the swath; default 145, Sentinel-2's, if neither is set",
    )
    min_elevation_deg: float | None = Field(
        None, ge=0, lt=90, description="instead of a swath: of the satellite, seen from the place"
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if self.swath_half_width_km is not None and self.min_elevation_deg is not None:
            raise ValueError(
                "swath_half_width_km and min_elevation_deg exclude each other; set one of the two"
            )
        return self
