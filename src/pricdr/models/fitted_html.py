"""What a notebook shows of a ``FittedModel``: sizes, what it was trained on, and what validation chose."""

from typing import TYPE_CHECKING

import numpy as np

from pricdr.notebook import summary_html

if TYPE_CHECKING:
    from pricdr.models.chosen import Chosen
    from pricdr.models.fitted import FittedModel, Origin


def fitted_html(model: "FittedModel") -> str:
    """Return sizes and choices as HTML; no fingerprint is in it, by which a guess at the ratings could be confirmed."""
    facts = {
        "method": model.method,
        "users": f"{len(model.users):,}",
        "of them in the source": f"{int(np.count_nonzero(model.in_release)):,}",
        "items": f"{len(model.items):,}",
        **({} if model.origin is None else _trained_on(model.origin)),
        **_chosen(model.chosen),
    }
    if model.summary is not None:
        facts["training ratings"] = "not in it: it was exported without them"
    plaintext = model.origin is not None and model.origin.plaintext_source
    warning = "NOT PRIVATE: it was trained on the source's ratings as they are" if plaintext else ""
    return summary_html("FittedModel", facts, warning=warning)


def _trained_on(origin: "Origin") -> dict[str, str]:
    if origin.plaintext_source:
        return {"trained on": "target ratings and the source's ratings"}
    if origin.release is None:
        return {"trained on": "target ratings alone"}
    signed = "nobody that was checked" if origin.release_signed_by is None else origin.release_signed_by
    return {"trained on": "target ratings and a release", "release signed by": signed}


def _chosen(chosen: "Chosen") -> dict[str, str]:
    facts = {}
    if chosen.epochs:
        facts["epochs"] = ", ".join(f"{network} {epoch:,}" for network, epoch in chosen.epochs.items())
    if chosen.settings:
        facts["settings chosen"] = ", ".join(f"{name} {value:g}" for name, value in chosen.settings.items())
    if chosen.trust is not None:
        facts["trust in the source"] = "{:.0%} for warm users, {:.0%} for cold ones".format(*chosen.trust)
    if chosen.not_chosen:
        facts["nothing chosen"] = chosen.not_chosen
    return facts
