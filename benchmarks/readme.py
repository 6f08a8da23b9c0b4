"""Put the numbers of ``growth.json``, which ``growth.py`` wrote, into the README.

python benchmarks/growth.py --json benchmarks/growth.json
python benchmarks/readme.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from _common import number

HERE = Path(__file__).resolve().parent
BEGIN, END = "<!-- benchmark:begin -->", "<!-- benchmark:end -->"


def table(found: dict[str, Any]) -> str:
    """Return the README's table: seconds to precision, and ratios to the PyTorch protocol."""
    machine, size = found["machine"], found["size"]
    lines = [
        f"Measured in one run of `python benchmarks/growth.py` on {machine['processor']}, "
        f"{machine['cores']} cores, JAX on {machine['device'].split()[0]}, jax {machine['jax']}, "
        f"torch {machine['torch']}: ReLU networks of width {size['width']} and depth "
        f"{size['depth']}, each with new weights, against Price & Tanner's protocol "
        f"({size['points']:,} points). For the sweep, the protocol's time is that of one network "
        "times the number of cells. Absolute times vary between machines: quote the ratios, or "
        "run `make bench` on yours.",
        "",
        "| law | method | seconds per network | seconds to 0.1 % error of growth | speedup |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in found["rows"]:
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.3g}"
        lines.append(
            f"| {row['law']} | {row['row']} | {number(row['seconds_a_network'])} "
            f"| {number(row['seconds_to_precision'])} | {ratio} |"
        )
    missed = [check for check in found["checks"] if not check["holds"]]
    if missed:
        names = "; ".join(f"{c['name']}: {_shown(c['value'])} ({c['target']})" for c in missed)
        lines += ["", f"Targets that this run missed: {names}."]
    return "\n".join(lines)


def _shown(value: float | None) -> str:
    return "void" if value is None else f"{value:.3g}"


def filled(readme: str, found: dict[str, Any]) -> str:
    """Return the README with the table between its markers."""
    before, rest = readme.split(BEGIN)
    return f"{before}{BEGIN}\n{table(found)}\n{END}{rest.split(END)[1]}"


def main() -> None:
    path = HERE.parent / "README.md"
    found = json.loads((HERE / "growth.json").read_text(encoding="utf-8"))
    path.write_text(filled(path.read_text(encoding="utf-8"), found), encoding="utf-8")


if __name__ == "__main__":
    main()
