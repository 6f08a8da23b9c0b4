"""The probes that have a name."""

from jaxexpr.probes.crossing_counts import (
    layer_patterns,
    network_transitions,
    patterns,
    pieces,
    sign_changes,
    transitions,
)
from jaxexpr.probes.kac_rice import expected_transitions
from jaxexpr.probes.lengths import (
    angle,
    growth,
    growth_squared,
    length,
    length_ratio,
    log_growth,
    log_length,
    norm,
)

NAMES = {
    p.name: p
    for p in (
        length,
        growth,
        growth_squared,
        log_growth,
        length_ratio,
        log_length,
        norm,
        angle,
        transitions,
        network_transitions,
        sign_changes,
        pieces,
        patterns,
        layer_patterns,
        expected_transitions,
    )
}
