"""Closed forms: bounds, exact laws and rates. Never imports an estimator or a counter."""

from jaxexpr.theory.growth import (
    composed,
    critical_density,
    critical_sigma,
    gaussian_growth,
    gaussian_log_growth,
    linear_probability,
    lipschitz_upper,
    mean_chi,
    per_layer,
    price_tanner_lower,
    price_tanner_sharp,
    raghu_lower,
    raghu_rate,
    raghu_sharp,
    second_moment_upper,
)

__all__ = [
    "composed",
    "critical_density",
    "critical_sigma",
    "gaussian_growth",
    "gaussian_log_growth",
    "linear_probability",
    "lipschitz_upper",
    "mean_chi",
    "per_layer",
    "price_tanner_lower",
    "price_tanner_sharp",
    "raghu_lower",
    "raghu_rate",
    "raghu_sharp",
    "second_moment_upper",
]
