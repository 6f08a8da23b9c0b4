"""What can be run and how large: the catalogue of simulations and their presets."""

from sims.presets import hanin_rolnick2019, own, pascanu2013, price_tanner2019, raghu2017
from sims.presets.base import PRESETS, TRAINING, Data, Simulation

CATALOGUE: dict[str, Simulation] = {
    **price_tanner2019.FIGURES,
    **raghu2017.FIGURES,
    **hanin_rolnick2019.FIGURES,
    **pascanu2013.FIGURES,
    **own.FIGURES,
    **hanin_rolnick2019.INITIAL,
}

__all__ = ["CATALOGUE", "PRESETS", "TRAINING", "Data", "Simulation"]
