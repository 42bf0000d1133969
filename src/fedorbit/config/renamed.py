"""Keys that earlier versions called otherwise: they are read under their new names.

Values are renamed layer by layer (a file, the overrides, the folder of a run) before one layer is
laid over another, so that the old name in a file and the new one in an override are one key.
"""

import warnings
from collections.abc import Mapping
from typing import Any

from fedorbit.errors import ConfigError

RENAMED = {
    "link_rates.gs_uplink_mbps": "link_rates.to_ground_mbps",
    "link_rates.gs_downlink_mbps": "link_rates.from_ground_mbps",
}
"""To the ground was called an uplink, which is the other direction in satellite operations."""


def current_name(key: str) -> str:
    """Return the name that a key has now."""
    return RENAMED.get(key, key)


def named_anew(values: Mapping[str, Any], where: str, *, warn: bool = True) -> dict[str, Any]:
    """Return values under the names of now; warn of old ones, and refuse a key that has both."""
    renamed = dict(values)
    for old, new in RENAMED.items():
        (section, old_key), new_key = old.split("."), new.split(".")[1]
        table = renamed.get(section)
        if not isinstance(table, Mapping) or old_key not in table:
            continue
        if new_key in table:
            raise ConfigError(f"{where}: {new} and its old name {old} are both given; remove {old}")
        if warn:
            warnings.warn(
                f"{where}: {old} is now called {new}; it is still read, write the new name",
                stacklevel=1,  # of this place, so that it is shown once
            )
        renamed[section] = {new_key if key == old_key else key: table[key] for key in table}
    return renamed
