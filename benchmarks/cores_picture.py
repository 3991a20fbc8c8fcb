"""The picture of a batch on more and more cores: seconds by the model, and those that were measured."""

from collections.abc import Sequence
from math import log2
from typing import Final, Protocol

__all__ = ["cores_picture"]

_WIDTH, _HEIGHT = 640, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 24, 48, 44
_STYLE: Final = """\
  text { font: 13px sans-serif; fill: #24292f }
  .line { fill: none; stroke: #0969da; stroke-width: 2 }
  .axis { stroke: #8c959f; stroke-width: 1 }
  .measured { fill: #bc4c00 }
  .ground { fill: #ffffff }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .line { stroke: #58a6ff }
    .axis { stroke: #6e7681 }
    .measured { fill: #ffa657 }
    .ground { fill: #0d1117 }
  }"""


class Point(Protocol):
    """A number of cores."""

    @property
    def cores(self) -> int: ...
    @property
    def model_seconds(self) -> float: ...
    @property
    def measured_seconds(self) -> float | None: ...


def cores_picture(points: Sequence[Point]) -> str:
    """An SVG that is readable on light and on dark pages.

    Args:
        points: by number of cores, ascending.
    """
    most_cores = points[-1].cores
    highest = max(max(point.model_seconds, point.measured_seconds or 0) for point in points)

    def across(cores: int) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * log2(cores) / max(1.0, log2(most_cores))

    def down(seconds: float) -> float:
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - seconds / highest)

    line = " ".join(f"{across(point.cores):.1f},{down(point.model_seconds):.1f}" for point in points)
    below = _HEIGHT - _BOTTOM
    marks = [
        f'<text x="{across(point.cores):.1f}" y="{below + 18}" text-anchor="middle">{point.cores}</text>'
        for point in points
    ]
    marks += [
        f'<text x="{_LEFT - 8}" y="{down(seconds) + 4:.1f}" text-anchor="end">{seconds:.0f} s</text>'
        for seconds in (0, highest / 2, highest)
    ]
    marks += [
        f'<circle class="measured" cx="{across(point.cores):.1f}" cy="{down(point.measured_seconds):.1f}" r="5"/>'
        for point in points
        if point.measured_seconds is not None
    ]
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img"',
        ' aria-label="Seconds of a batch by cores: a model, and measurements">',
        f"<style>\n{_STYLE}\n</style>",
        f'<rect class="ground" width="{_WIDTH}" height="{_HEIGHT}"/>',
        f'<text x="{_LEFT}" y="22">Seconds of a batch by cores</text>',
        '<line class="line" x1="300" y1="18" x2="324" y2="18"/><text x="330" y="22">a model</text>',
        '<circle class="measured" cx="420" cy="18" r="5"/><text x="432" y="22">measured</text>',
        f'<line class="axis" x1="{_LEFT}" y1="{below}" x2="{_WIDTH - _RIGHT}" y2="{below}"/>',
        f'<line class="axis" x1="{_LEFT}" y1="{_TOP}" x2="{_LEFT}" y2="{below}"/>',
        f'<polyline class="line" points="{line}"/>',
        *marks,
        f'<text x="{(_LEFT + _WIDTH) / 2}" y="{_HEIGHT - 8}" text-anchor="middle">cores</text>',
        "</svg>",
        "",
    ])  # fmt: skip
