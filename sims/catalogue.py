"""What can be run and how large: the simulations by name, and their presets.

``papers/`` holds them as plain data; nothing heavy is imported here, so that lists appear at once.
A script is imported when its configuration is asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from sims.papers import hanin_rolnick2019, own, pascanu2013, price_tanner2019, raghu2017

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

    from sims.findings import Findings
    from sims.running import Run

PRESETS = ("smoke", "quick", "cpu", "paper")


class Script(Protocol):
    """What a simulation's module holds.

    ``draw`` returns the figure and what its caption says besides preset, data and draws.
    """

    Config: Any

    def simulate(self, config: Any, run: Run) -> xr.Dataset:
        """Measure."""

    def check(self, data: xr.Dataset, config: Any) -> Findings:
        """Hold what was measured against what is proven, and what is claimed."""

    def draw(self, data: xr.Dataset, config: Any) -> tuple[Figure, str]:
        """Draw what was measured."""


class Simulation(NamedTuple):
    """An entry of the catalogue.

    Attributes
    ----------
    settings : fields of the configuration that differ from its defaults, in every preset.
    smoke, quick, cpu, paper : what a preset changes besides. ``cpu`` is the largest that fits an
        hour on two cores, and as ``quick`` where there is none.
    """

    title: str
    script: str
    settings: Mapping[str, Any] = {}
    smoke: Mapping[str, Any] = {}
    quick: Mapping[str, Any] = {}
    cpu: Mapping[str, Any] | None = None
    paper: Mapping[str, Any] = {}

    @property
    def module(self) -> Script:
        """The script, imported."""
        return cast(Script, importlib.import_module(f"sims.{self.script}"))

    @property
    def trains(self) -> bool:
        """Whether networks are trained: claims are about one run, and may well not be seen."""
        return self.script.startswith("training.")

    def preset(self, name: str) -> dict[str, Any]:
        """Return the settings of a preset that differ from the configuration's defaults."""
        changes = self.quick if name == "cpu" and self.cpu is None else getattr(self, name)
        return {**self.settings, **changes}

    def config(self, preset: str) -> Any:
        """Return the configuration of a preset."""
        return self.module.Config(**self.preset(preset))

    def stored_config(self, settings: Mapping[str, Any]) -> Any:
        """Return the configuration that a file holds as JSON.

        Raises ValueError if it has other fields: another version wrote it.
        """
        try:
            return self.module.Config(**{key: _tuples(value) for key, value in settings.items()})
        except TypeError as error:
            raise ValueError(
                f"config={dict(settings)} is of a version with other fields ({error}): run the "
                "simulation again"
            ) from None


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


CATALOGUE: dict[str, Simulation] = {
    name: Simulation(**entry)
    for figures in (
        price_tanner2019.FIGURES,
        raghu2017.FIGURES,
        hanin_rolnick2019.FIGURES,
        pascanu2013.FIGURES,
        own.FIGURES,
    )
    for name, entry in figures.items()
}
