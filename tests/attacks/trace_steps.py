"""Trace the steps of a learnt strategy: the real code, with what every step adds up seen from outside.

Strategies keep the outputs of their steps to themselves. Here they run as they are, but the function that adds noise is
replaced for the time being by one that takes notes, and that can put in what an adversary has seen for what would have
come out: the next step then goes on from there.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias
from unittest.mock import patch

import numpy as np
import numpy.typing as npt

from pricdr.privacy.steps import Step
from pricdr.privacy.strategies import rounds, spectral
from pricdr.privacy.sums import noisy_sums

FloatArray: TypeAlias = npt.NDArray[np.float64]
Transcript: TypeAlias = dict[str, FloatArray]
"""What every step gave, by its name."""


@contextmanager
def trace_steps(seen: Mapping[str, FloatArray] | None = None) -> Iterator[Transcript]:
    """Yield a transcript that fills as steps are run; they go on from what was ``seen``, where anything was."""
    transcript = Transcript()
    shown = {} if seen is None else seen

    def noting(*args: Any, step: Step, **rest: Any) -> FloatArray:
        transcript[step.name] = noisy_sums(*args, step=step, **rest)
        return shown.get(step.name, transcript[step.name]).copy()

    with patch.object(rounds, "noisy_sums", noting), patch.object(spectral, "noisy_sums", noting):
        yield transcript
