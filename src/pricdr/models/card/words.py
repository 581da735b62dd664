"""The fixed sentences of a card: what methods are, what a model is for, where it ends and what nobody protects."""

from collections.abc import Mapping
from typing import Final

METHOD_WORDS: Final[Mapping[str, str]] = {
    "hetero": "Two networks learn what the target's users and items are like; a third reads release rows and finds the "
    "place of their users among them.",
    "hetero-paper": "HeteroCDR in the form the paper prints it: one network for the target's ratings, one for release "
    "rows, trained together.",
    "symmetric": "Auto-encoders on both sides, for the target's ratings and for release rows.",
    "dmf": "Two networks learn what the target's users and items are like. It sees the target's ratings alone.",
    "bpr": "A vector for each user and each item, learnt by ranking rated items above others.",
    "neumf": "A vector for each user and each item, and a small network over both.",
    "conet": "Two networks, one for each company's ratings, with connections between them.",
    "ddtcdr": "Two networks, one for each company's ratings, and a map between their users.",
    "darec": "Auto-encoders for both companies' ratings, trained so that the two cannot be told apart.",
    "etl": "Auto-encoders for both companies' ratings, joined by one transformation.",
    "popularity": "Everybody gets what was rated most often.",
    "itemknn": "Items like those a user rated, by who rated them.",
    "ease": "A weight from every item to every other, computed in one step.",
    "ease-source": "A weight from every item of both companies to every item of the target, computed in one step.",
    "ease-release": "A weight from every item, and from every number of a release row, to every item, computed in one "
    "step.",
    "ridge-release": "Scores of all items straight from a user's release row; the user's own ratings are not used.",
}
"""What each of our methods does, for people who will never read its code."""

BASIS_WORDS: Final[Mapping[str, str]] = {
    "history": "the user's own ratings",
    "release": "the user's row in the release",
    "both": "the user's own ratings and row in the release",
    "popularity": "what is popular",
}

FOR_ITS_USERS: Final = "To order the items of its catalogue for people: the target's users."
FOR_RELEASED_USERS: Final = (
    "To order the items of its catalogue for people: the target's users, and those of the release who have not rated "
    "anything there yet."
)
NOT_FOR: Final = (
    "Not for decisions about people. It tells what somebody may like, from what was rated. It knows nothing else, and "
    "is often wrong about one person."
)
LIMITS: Final = (
    "It knows the users and items it was trained on. A new user gets what is popular, and a new item is never "
    "recommended: train again.",
    "A score orders items for one user. It is no probability, and scores of two models cannot be compared.",
    "Figures of quality hold for the split they were measured on: one protocol, one moment, these users.",
)
EXPORTED: Final = "It was exported without the ratings it was trained on, so it may recommend what a user has rated."
TARGET_SIDE: Final = (
    "The target's own ratings. They were learnt from as they are, without noise: the model folder, its recommendations "
    "and its similar items can tell about them. Protect the folder like the ratings.",
    "What recommendations show. Whoever sees those of a user learns something about that user's taste, and from what "
    "they rest on whether the user has ratings here or a row in the release.",
)
PLAINTEXT: Final = (
    "NOT PRIVATE: this model was trained on the source's ratings as they are. It must not be used outside experiments."
)
NO_CERTIFICATE: Final = (
    "Not recorded: this model was trained by a version of pricdr that kept no copy of the certificate. Train it again, "
    "or read the release itself."
)
NO_RELEASE: Final = "No release was used. Nothing of the source's is in this model, so nothing had to be promised."
UNVERIFIED: Final = (
    "The release was not verified before it was used (--allow-unverified). What its certificate says is a claim."
)
NOT_MEASURED: Final = "not measured"
