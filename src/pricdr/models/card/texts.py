"""The fixed texts of a card: what methods do, what a model is for, its limits, and what is not protected."""

from collections.abc import Mapping
from typing import Final

METHOD_DESCRIPTIONS: Final[Mapping[str, str]] = {
    "hetero": "Two networks learn vectors of the target's users and items; a third maps a user's release row to such "
    "a vector.",
    "hetero-paper": "HeteroCDR as printed in the paper: one network for the target's ratings and one for release rows, "
    "trained together.",
    "symmetric": "Auto-encoders on both sides, for the target's ratings and for release rows.",
    "dmf": "Two networks learn vectors of the target's users and items, from the target's ratings alone.",
    "bpr": "A vector for each user and each item, learnt by ranking rated items above others.",
    "neumf": "A vector for each user and each item, and a small network over both.",
    "conet": "Two networks, one for each company's ratings, with connections between them.",
    "ddtcdr": "Two networks, one for each company's ratings, and a map between their users.",
    "darec": "Auto-encoders for both companies' ratings, trained so that the two cannot be told apart.",
    "etl": "Auto-encoders for both companies' ratings, joined by one transformation.",
    "popularity": "All users get the items that were rated most often.",
    "itemknn": "Items similar to those a user rated, where similar items have the same raters.",
    "ease": "A weight from every item to every other, computed in one step.",
    "ease-source": "A weight from every item of both companies to every item of the target, computed in one step.",
    "ease-release": "A weight from every item, and from every number of a release row, to every item, computed in one "
    "step.",
    "ridge-release": "Scores of all items straight from a user's release row; the user's own ratings are not used.",
}
"""What each built-in method does, for people who will not read its code."""

BASIS_NAMES: Final[Mapping[str, str]] = {
    "history": "the user's own ratings",
    "release": "the user's row in the release",
    "both": "the user's own ratings and row in the release",
    "popularity": "popularity",
}

FOR_ITS_USERS: Final = "To rank the items of its catalogue for the target's users."
FOR_RELEASED_USERS: Final = (
    "To rank the items of its catalogue for the target's users, and for users of the release who have not rated "
    "anything there yet."
)
NOT_FOR: Final = (
    "Not for decisions about people. It predicts what a person may like from ratings. It knows nothing else, and is "
    "often wrong about an individual."
)
LIMITS: Final = (
    "It knows only the users and items it was trained on. A new user gets the most popular items, and a new item is "
    "never recommended until the model is trained again.",
    "A score orders items for one user. It is not a probability, and scores of two models cannot be compared.",
    "Quality figures hold for the split they were measured on: one protocol, one point in time, these users.",
)
EXPORTED: Final = (
    "It was exported without the ratings it was trained on, so it may recommend items that a user has already rated."
)
TARGET_SIDE: Final = (
    "The target's own ratings. The model learnt from them without noise, so the model folder, its recommendations and "
    "its similar items can reveal something about them. Protect the folder like the ratings.",
    "What recommendations reveal. Anyone who sees the recommendations of a user learns something about that user's "
    "taste, and from their basis whether the user has ratings here or a row in the release.",
)
PLAINTEXT: Final = (
    "NOT PRIVATE: this model was trained on the source's ratings in plaintext. It must not be used outside experiments."
)
NO_CERTIFICATE: Final = (
    "Not recorded: there is no copy of the certificate in the model's folder. Train it again, or look at the release "
    "itself."
)
NO_RELEASE: Final = "No release was used. This model contains nothing from the source, so nothing had to be promised."
UNVERIFIED: Final = (
    "The release was not verified before it was used (--allow-unverified). What its certificate says is only a claim."
)
NOT_MEASURED: Final = "not measured"
