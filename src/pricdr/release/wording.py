"""The sentences of a certificate: who counts as a neighbour, what is not protected, what to be warned of.

Each is a function of the terms alone, so that ``verify`` can write it again and compare. The words belong to the schema
version: changing one means a new version, or older releases would no longer verify.
"""

from pricdr.privacy.calibration import Calibration
from pricdr.privacy.guarantee import Unit, delta_warnings, epsilon_warnings
from pricdr.privacy.registry import BY_NAME
from pricdr.privacy.steps import Payer
from pricdr.release.terms import Terms


def neighbours(terms: Terms) -> str:
    """Return the neighbouring relation that the promise is about, in one sentence."""
    unlisted = any(one.step.payer is Payer.UNLISTED for one in terms.settled)
    everybody = " (listed or not)" if unlisted else ""
    if terms.unit is Unit.RATING:
        return (
            f"two inputs over the same listed users that differ in one (user, item) entry{everybody}, "
            f"each value within [0, {terms.bounds.largest:g}], not rated being 0"
        )
    return f"two inputs over the same listed users that differ in all ratings of one user{everybody}, however many"


def not_protected(terms: Terms) -> list[str]:
    """Return what the promise does not cover, one sentence each: from who is listed to what holds of everybody."""
    strategy = BY_NAME[terms.strategy.name]
    sentences = [
        "The user list itself: its ids, their number and their order are in the release."
        if terms.input.user_list == "declared"
        else "Who has ratings at all: without a declared user list the users were read off the ratings."
    ]
    if terms.input.alignment is not None:
        sentences.append(
            "That everybody on the list is a user of two parties: it came from an intersection of their users, so "
            "being listed says so."
        )
    if terms.input.item_universe == "read off the ratings":
        sentences.append(
            "Which items exist: the item universe was read off the ratings, and the first rating of an item changes "
            "it; the guarantee holds for ratings of items that somebody else rated too."
        )
    if terms.input.filtered_by is not None:
        sentences.append(
            "The filter the ratings went through before: the guarantee holds for the filtered matrix with its user "
            "and item sets fixed; which users and items survived the filter is not covered."
        )
    if strategy.learns:
        sentences.append(
            "Erasure: directions were learnt from everybody's ratings, so deleting a user's row from the release does "
            "not take that user's ratings out of the other rows."
        )
    sentences += strategy.not_protected
    if terms.guide is not None:
        sentences.append(
            "Ratings that the guide's party holds too: they pay in both releases. And every new guide is a new release "
            "of the same ratings."
        )
    if terms.unit is Unit.RATING:
        sentences.append(
            "A user's taste as a whole: the promise is for one rating; the section on a whole user says more."
        )
    sentences.append("What other releases of the same ratings tell, unless one ledger counts them all.")
    sentences.append("What holds of the population: the release is made to tell general tastes.")
    return sentences


def warnings(terms: Terms) -> list[str]:
    """Return what whoever reads the certificate should be warned of; empty where there is nothing."""
    lines = list(delta_warnings(terms.delta, terms.declared.users))
    if terms.source == "secret" and terms.epsilon is not None:
        # Under the paper's calibration what was asked for is not what is promised.
        exact = terms.calibration is Calibration.EXACT
        lines += epsilon_warnings(terms.epsilon if exact else terms.epsilon_at(terms.delta), terms.unit)
    # A name that is not ours now must not become ours later: releases made with it would no longer say what they did.
    if terms.strategy.name not in BY_NAME.own:
        lines.append(
            f"strategy {terms.strategy.name} is not part of PriCDR: that one change to the ratings moves its steps no "
            "further than stated is the claim of whoever wrote it"
        )
    if terms.guide is not None and not terms.guide.private:
        lines.append("the guide is NOT PRIVATE: it protects nobody on the other side")
    # Learnt rows pay for their rounding instead, so it cannot hide anything that was not paid for.
    unrounded = terms.settled[-1].step.spread is None
    if terms.noisy and unrounded and not terms.grid.keeps_signal(terms.bounds, terms.dim):
        lines.append("sigma is so large against one rating step that nothing of the ratings is left: pure noise")
    return lines
