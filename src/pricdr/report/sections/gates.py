"""What gates are, for those who have not read the model's documentation."""

from typing import Final

GATES: Final = (
    "Gates: our model tests on its own training and validation data whether a release is worth anything, and trusts it "
    "from 0 to 1, for warm and cold users apart. At trust 0 the release is refused, and the figure is that of the "
    "target-only model. With gates off every release is trusted fully, as the paper does."
)
